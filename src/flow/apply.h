/*
 * apply.h
 *		What an apply worker does with a flow it has: the next batch, or the first copy.
 */
#ifndef SCD2_FLOW_APPLY_H
#define SCD2_FLOW_APPLY_H

#include "flow/state.h"

extern int64 scd2_apply_batch(Scd2Flow *flow, Scd2FlowState *state, int64 latest);
extern void scd2_first_copy(Scd2Flow *flow, Scd2FlowState *state);

/* copy.c: what a full refresh begins with. */
extern void scd2_delete_all(Scd2Flow *flow);
extern void scd2_lock_source(Scd2Flow *flow);
extern bool scd2_last_truncate_seen(Scd2Flow *flow, int64 version, Datum snapshot, int64 *truncate, TimestampTz *truncated_at);
extern bool scd2_has_target_for_itself(Scd2Flow *flow, bool fresh);
extern void scd2_forget_marks(Scd2Flow *flow);
extern void scd2_empty_target(Scd2Flow *flow);

#endif							/* SCD2_FLOW_APPLY_H */
