/*
 * check.h
 *		The lock of a flow.
 */
#ifndef SCD2_FLOW_CHECK_H
#define SCD2_FLOW_CHECK_H

#include "storage/lock.h"

extern void scd2_flow_locktag(LOCKTAG *tag, int flow_id);

#endif							/* SCD2_FLOW_CHECK_H */
