/*
 * append.h
 *		Flows that append rows.
 */
#ifndef SCD2_FLOW_APPEND_H
#define SCD2_FLOW_APPEND_H

#include "lib/stringinfo.h"

#include "flow/state.h"
#include "flow/work.h"

extern void scd2_append_read_sql(StringInfo sql, Scd2Flow *flow, Scd2Statement which);
extern void scd2_append_read(Scd2Work *work, Scd2Statement which, int nargs, const Datum *args);
extern void scd2_append_copy(Scd2Flow *flow, Scd2FlowState *state);

#endif							/* SCD2_FLOW_APPEND_H */
