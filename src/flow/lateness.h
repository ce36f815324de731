/*
 * lateness.h
 *		How late events may be: the horizon of a flow, and what is forgotten below it.
 */
#ifndef SCD2_FLOW_LATENESS_H
#define SCD2_FLOW_LATENESS_H

#include "executor/tuptable.h"
#include "lib/stringinfo.h"

#include "flow/work.h"

extern void scd2_lateness_load(Scd2Flow *flow);
extern void scd2_lateness_begin(Scd2Flow *flow, bool joins);
extern bool scd2_lateness_lowest(Scd2Flow *flow, Datum *lowest);
extern void scd2_lateness_joined(Scd2Work *work);
extern void scd2_lateness_purge(Scd2Work *work, Datum before);
extern bool scd2_lateness_see(Scd2Work *work, TupleTableSlot *slot);
extern int	scd2_lateness_args(Scd2Flow *flow, Datum *args, int nargs);
extern void scd2_lateness_finish(Scd2Work *work);
extern void scd2_lateness_forget_marks(Scd2Flow *flow);

/* Their SQL. */
extern void scd2_append_moves(StringInfo sql, Scd2Flow *flow, const char *sequence, const char *invalid, bool from_feed);
extern void scd2_append_horizon(StringInfo sql, Scd2Flow *flow, const char *highest);
extern void scd2_append_forget(StringInfo sql, Scd2Flow *flow);
extern void scd2_append_remember_ends(StringInfo sql, Scd2Flow *flow);
extern void scd2_append_complete(StringInfo sql, Scd2Flow *flow);

#endif							/* SCD2_FLOW_LATENESS_H */
