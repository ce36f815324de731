/*
 * retention.h
 *		What old partitions of feeds hold.
 */
#ifndef SCD2_FEED_RETENTION_H
#define SCD2_FEED_RETENTION_H

#include "storage/lockdefs.h"
#include "utils/relcache.h"

extern Relation scd2_try_open(Oid relid, LOCKMODE mode);

#endif							/* SCD2_FEED_RETENTION_H */
