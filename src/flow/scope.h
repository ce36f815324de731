/*
 * scope.h
 *		Of which keys a complete snapshot speaks.
 */
#ifndef SCD2_FLOW_SCOPE_H
#define SCD2_FLOW_SCOPE_H

#include "flow/flow.h"

extern int	scd2_scope_find(Scd2Flow *flow, const char *expression, const char *alias, List *settings);
extern bool scd2_scope_has(Scd2Flow *flow, int scope, const Datum *key);

#endif							/* SCD2_FLOW_SCOPE_H */
