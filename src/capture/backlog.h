/*
 * backlog.h
 *		Changes of feeds that cannot be written where they belong, kept aside in order.
 */
#ifndef SCD2_CAPTURE_BACKLOG_H
#define SCD2_CAPTURE_BACKLOG_H

#include "utils/timestamp.h"

#include "capture/batch.h"

typedef struct Scd2Backlog Scd2Backlog;

extern void scd2_backlog_load(void);
extern Scd2Backlog *scd2_backlog_of(int feed_id);
extern bool scd2_backlog_on_relation(Oid feed_relid);
extern bool scd2_backlog_goes_on(const Scd2Backlog *backlog);
extern int64 scd2_backlog_complete(const Scd2Backlog *backlog);
extern bool scd2_backlog_last_layout(Scd2Feed *feed, int64 version);

extern void scd2_backlog_begin(void);
extern void scd2_backlog_put(Scd2Batch *batch, Scd2Feed *feed, const ErrorData *why);
extern bool scd2_backlog_disable(int feed_id);
extern void scd2_backlog_settle(void);

extern bool scd2_backlog_any(void);
extern bool scd2_backlog_drain(Scd2Batch *batch, TimestampTz *again);

#endif							/* SCD2_CAPTURE_BACKLOG_H */
