/*
 * clock.h
 *		The times of versions.
 */
#ifndef SCD2_CAPTURE_CLOCK_H
#define SCD2_CAPTURE_CLOCK_H

#include "utils/timestamp.h"

extern TimestampTz scd2_clock_tick(TimestampTz last, TimestampTz commit_time, TransactionId xid);

#endif							/* SCD2_CAPTURE_CLOCK_H */
