/*
 * partitions.h
 *		What DDL on the partitions of a captured table does to its feed.
 */
#ifndef SCD2_FEED_PARTITIONS_H
#define SCD2_FEED_PARTITIONS_H

#include "nodes/nodes.h"

extern bool scd2_concerns_partitions(Node *stmt);
extern void scd2_partitions_before(Node *stmt);
extern void scd2_partitions_after(Node *stmt);

#endif							/* SCD2_FEED_PARTITIONS_H */
