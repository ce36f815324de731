/*
 * failpoint.h
 *		Places where a test can make a worker fail.
 *
 * SET pg_scd2.debug_fail_at = 'position written' (superuser, hidden) raises an error each time a worker comes by. Costs a comparison with NULL otherwise.
 */
#ifndef SCD2_WORKER_FAILPOINT_H
#define SCD2_WORKER_FAILPOINT_H

#include "pg_scd2.h"

#define SCD2_FAIL_POINT(where) \
	do \
	{ \
		if (unlikely(scd2_debug_fail_at != NULL && strcmp(scd2_debug_fail_at, where) == 0)) \
			ereport(ERROR, \
					(errcode(ERRCODE_INTERNAL_ERROR), \
					 errmsg("injected failure: %s", where))); \
	} while (0)

#endif							/* SCD2_WORKER_FAILPOINT_H */
