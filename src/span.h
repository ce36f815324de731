/*
 * span.h
 *		Lengths of time that users give.
 */
#ifndef SCD2_SPAN_H
#define SCD2_SPAN_H

#include "datatype/timestamp.h"

#define SCD2_SPAN_BOUNDS	"from 0 to 1000 years"

extern bool scd2_span_is_bounded(const Interval *span);

#endif							/* SCD2_SPAN_H */
