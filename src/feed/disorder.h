/*
 * disorder.h
 *		Feeds whose rows others put elsewhere.
 */
#ifndef SCD2_FEED_DISORDER_H
#define SCD2_FEED_DISORDER_H

extern void scd2_note_disorder(Oid relid);

#endif							/* SCD2_FEED_DISORDER_H */
