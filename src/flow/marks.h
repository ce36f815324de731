/*
 * marks.h
 *		Events of every key of a target: truncates and complete snapshots.
 */
#ifndef SCD2_FLOW_MARKS_H
#define SCD2_FLOW_MARKS_H

#include "flow/flow.h"

extern void scd2_load_marks(Scd2Flow *flow);
extern void scd2_record_mark(Scd2Flow *flow, Datum sequence, bool snapshot);
extern void scd2_assume_horizon(Scd2Flow *flow, Datum sequence);
extern void scd2_record_horizon(Scd2Flow *flow, Datum sequence);
extern char *scd2_sequence_text(Scd2Flow *flow, Datum sequence);
extern Datum scd2_sequence_value(Scd2Flow *flow, const char *text);
extern Datum scd2_sequence_from_user(Scd2Flow *flow, char *text);

#endif							/* SCD2_FLOW_MARKS_H */
