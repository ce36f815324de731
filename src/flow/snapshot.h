/*
 * snapshot.h
 *		Complete snapshots as a source.
 */
#ifndef SCD2_FLOW_SNAPSHOT_H
#define SCD2_FLOW_SNAPSHOT_H

#include "flow/state.h"

extern bool scd2_snapshot_is_due(const Scd2FlowState *state, bool once, int64 refresh_interval, TimestampTz asked, TimestampTz *due);
extern void scd2_snapshot_by_worker(Scd2Flow *flow, Scd2FlowState *state);

#endif							/* SCD2_FLOW_SNAPSHOT_H */
