/*
 * resync.h
 *		The repair of feeds that have a gap.
 */
#ifndef SCD2_FLOW_RESYNC_H
#define SCD2_FLOW_RESYNC_H

#include "utils/timestamp.h"

extern TimestampTz scd2_repair_feeds(MemoryContext work_cxt);

#endif							/* SCD2_FLOW_RESYNC_H */
