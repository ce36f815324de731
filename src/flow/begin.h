/*
 * begin.h
 *		The beginning of a flow.
 */
#ifndef SCD2_FLOW_BEGIN_H
#define SCD2_FLOW_BEGIN_H

#include "utils/timestamp.h"

extern void scd2_flow_begin(int flow_id, int64 version, TimestampTz timestamp);

#endif							/* SCD2_FLOW_BEGIN_H */
