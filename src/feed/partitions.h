/*
 * partitions.h
 *		What DDL on the partitions of a captured table does to its feed.
 */
#ifndef SCD2_FEED_PARTITIONS_H
#define SCD2_FEED_PARTITIONS_H

extern void scd2_partitions_init(void);

#endif							/* SCD2_FEED_PARTITIONS_H */
