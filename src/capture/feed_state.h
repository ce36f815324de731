/*
 * feed_state.h
 *		What capture notes of a feed: it is captured, has a gap, is being repaired, was disabled.
 */
#ifndef SCD2_CAPTURE_FEED_STATE_H
#define SCD2_CAPTURE_FEED_STATE_H

#include "utils/timestamp.h"

#include "capture/batch.h"

extern void scd2_feed_state_enable(const Scd2Control *control);
extern void scd2_feed_state_disable(int feed_id);
extern void scd2_feed_state_fail(int feed_id, int64 version, const char *why);
extern bool scd2_feed_state_repair(int feed_id, int64 version, TimestampTz timestamp);
extern void scd2_feed_state_resync(const Scd2Control *control);
extern bool scd2_feed_is_disabled(int feed_id);
extern bool scd2_feed_is_comparable(int feed_id);

#endif							/* SCD2_CAPTURE_FEED_STATE_H */
