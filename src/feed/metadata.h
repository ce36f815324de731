/*
 * metadata.h
 *		The metadata columns at the front of each feed and of its partitions (API.md, "Change feed").
 */
#ifndef SCD2_FEED_METADATA_H
#define SCD2_FEED_METADATA_H

#include "believed.h"

#define SCD2_META_CHANGE_TYPE		0
#define SCD2_META_COMMIT_VERSION	1
#define SCD2_META_COMMIT_TIMESTAMP	2
#define SCD2_META_CHANGE_ORDINAL	3
#define SCD2_META_XID				4
#define SCD2_META_COLUMNS			5

extern const Scd2BelievedColumn scd2_meta_columns[SCD2_META_COLUMNS];

extern bool scd2_feed_fits(Relation feed, Scd2Misfit *misfit);
extern bool scd2_leaf_fits(Relation leaf, Scd2Misfit *misfit);

#endif							/* SCD2_FEED_METADATA_H */
