/*
 * apply.h
 *		What an apply worker does with a flow it has: the next batch, or the first copy.
 */
#ifndef SCD2_FLOW_APPLY_H
#define SCD2_FLOW_APPLY_H

#include "flow/state.h"

extern int64 scd2_apply_batch(Scd2Flow *flow, Scd2FlowState *state, int64 latest);
extern void scd2_first_copy(Scd2Flow *flow, Scd2FlowState *state);

#endif							/* SCD2_FLOW_APPLY_H */
