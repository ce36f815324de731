/*
 * recall.h
 *		What a target's rows do not show of the events behind them: <target>_memory.
 */
#ifndef SCD2_FLOW_RECALL_H
#define SCD2_FLOW_RECALL_H

#include "flow/work.h"

extern Scd2Recall *scd2_recall_begin(Scd2Work *work);
extern void scd2_recall_end(Scd2Recall *recall);
extern void scd2_recall_start_lookups(Scd2Recall *recall);
extern void scd2_recall_stop_lookups(Scd2Recall *recall);
extern void scd2_recall_begin_key(Scd2Recall *recall, const Datum *key);
extern Scd2Memory *scd2_recall_next(Scd2Recall *recall, Datum lowest, const Scd2Row *first);
extern Scd2Memory *scd2_recall_first_from(Scd2Recall *recall, Datum sequence);
extern void scd2_recall_change(Scd2Recall *recall, const Datum *key, const Scd2Memory *was, const Scd2Memory *now);
extern void scd2_recall_write(Scd2Recall *recall);

#endif							/* SCD2_FLOW_RECALL_H */
