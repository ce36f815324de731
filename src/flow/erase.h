/*
 * erase.h
 *		Knowing events of keys that were erased.
 */
#ifndef SCD2_FLOW_ERASE_H
#define SCD2_FLOW_ERASE_H

#include "flow/flow.h"

typedef struct Scd2Erased Scd2Erased;

extern Scd2Erased *scd2_erased_load(Scd2Flow *flow);
extern bool scd2_erased_has(Scd2Flow *flow, const Datum *columns, Datum sequence);

#endif							/* SCD2_FLOW_ERASE_H */
