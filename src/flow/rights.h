/*
 * rights.h
 *		Whom a flow acts as, and whether it may.
 */
#ifndef SCD2_FLOW_RIGHTS_H
#define SCD2_FLOW_RIGHTS_H

#include "flow/flow.h"
#include "identity.h"

extern void scd2_flow_check_author(Scd2Flow *flow);
extern void scd2_flow_become(Scd2Flow *flow, Scd2Identity *before);

#endif							/* SCD2_FLOW_RIGHTS_H */
