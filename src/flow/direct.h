/*
 * direct.h
 *		Writing a plain target without going through SQL.
 */
#ifndef SCD2_FLOW_DIRECT_H
#define SCD2_FLOW_DIRECT_H

#include "flow/work.h"

extern Scd2Direct *scd2_direct_begin(Scd2Work *work);
extern void scd2_direct_insert(Scd2Direct *direct, const Scd2Change *change);
extern void scd2_direct_emit(Scd2Direct *direct, const Scd2Change *change);
extern void scd2_direct_flush(Scd2Direct *direct);
extern void scd2_direct_end(Scd2Direct *direct);

#endif							/* SCD2_FLOW_DIRECT_H */
