/*
 * relations.h
 *		A flow's relations, compared with what it believes of them.
 */
#ifndef SCD2_FLOW_RELATIONS_H
#define SCD2_FLOW_RELATIONS_H

#include "utils/rel.h"

#include "flow/flow.h"

extern void scd2_believe_target(Scd2Flow *flow);
extern void scd2_believe_memory(Scd2Flow *flow);
extern void scd2_check_target(Scd2Flow *flow, Relation target);
extern void scd2_check_memory(Scd2Flow *flow, Relation memory);
extern void scd2_check_feed(Scd2Flow *flow, Relation feed);
extern void scd2_check_leaf(Scd2Flow *flow, Relation leaf);
extern void scd2_check_target_index(Scd2Flow *flow, Relation target, Relation index);
extern void scd2_check_memory_index(Scd2Flow *flow, Relation memory, Relation index);
extern bool scd2_memory_has_column(const Scd2Flow *flow, int column);
extern Relation scd2_open_to_write(Oid relid, const char *label);
extern Relation scd2_open_primary_key(Relation rel, Oid index, const char *label);
extern void scd2_check_columns_read(Scd2Flow *flow, TupleDesc desc, int nbefore, const Oid *before, int nafter, const Oid *after);

#endif							/* SCD2_FLOW_RELATIONS_H */
