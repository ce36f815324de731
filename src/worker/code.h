/*
 * code.h
 *		Which functions may run in our background workers.
 */
#ifndef SCD2_WORKER_CODE_H
#define SCD2_WORKER_CODE_H

#include "nodes/plannodes.h"

typedef enum Scd2CodeRule
{
	SCD2_CODE_ANY,				/* every function */
	SCD2_CODE_OF_CAPTURE,		/* those in language internal or C, and those that superusers own */
	SCD2_CODE_OF_SUPERUSERS		/* the same, but only while the current user is a superuser */
} Scd2CodeRule;

/*
 * To be called once, by a background worker, before it connects to a database. "rule" holds from then
 * on, wherever no other one was begun.
 */
extern void scd2_code_install(Scd2CodeRule rule);

/*
 * Another rule until scd2_code_end(), in a transaction, in a session too; may be nested. After an error nothing has to be
 * undone: the rule ends with the (sub)transaction that it was begun in.
 */
extern void scd2_code_begin(Scd2CodeRule rule);
extern void scd2_code_end(void);

/* Of views the same: to be called before a query is executed. */
extern void scd2_code_check_query(const PlannedStmt *plan);

#endif							/* SCD2_WORKER_CODE_H */
