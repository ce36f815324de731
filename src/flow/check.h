/*
 * check.h
 *		Expressions of flows, their lock, and which are at work.
 */
#ifndef SCD2_FLOW_CHECK_H
#define SCD2_FLOW_CHECK_H

#include "nodes/nodes.h"
#include "storage/lock.h"

/* Flows that this session applies at this moment, the innermost first. */
typedef struct Scd2AtWork
{
	int			flow_id;
	struct Scd2AtWork *outer;
} Scd2AtWork;

extern Scd2AtWork *scd2_at_work;

extern Node *scd2_parse_expression(const char *expression, const char *argument);
extern void scd2_flow_locktag(LOCKTAG *tag, int flow_id);
extern void scd2_target_locktag(LOCKTAG *tag, Oid target);
extern void scd2_repair_locktag(LOCKTAG *tag, int feed_id);

#endif							/* SCD2_FLOW_CHECK_H */
