/*
 * check.h
 *		Expressions of flows, and their lock.
 */
#ifndef SCD2_FLOW_CHECK_H
#define SCD2_FLOW_CHECK_H

#include "nodes/nodes.h"
#include "storage/lock.h"

extern Node *scd2_parse_expression(const char *expression, const char *argument);
extern void scd2_flow_locktag(LOCKTAG *tag, int flow_id);
extern void scd2_target_locktag(LOCKTAG *tag, Oid target);
extern void scd2_repair_locktag(LOCKTAG *tag, int feed_id);

#endif							/* SCD2_FLOW_CHECK_H */
