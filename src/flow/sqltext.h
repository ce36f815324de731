/*
 * sqltext.h
 *		Building SQL text.
 */
#ifndef SCD2_FLOW_SQLTEXT_H
#define SCD2_FLOW_SQLTEXT_H

#include "lib/stringinfo.h"

extern void scd2_sql(StringInfo sql, const char *format, ...);
extern char *scd2_type_sql(Oid type);

#endif							/* SCD2_FLOW_SQLTEXT_H */
