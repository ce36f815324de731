/*
 * failpoint.h
 *		Places where a test can make a worker fail, or wait.
 *
 * SET pg_scd2.debug_fail_at = 'position written' (superuser, hidden) raises an error each time a
 * worker comes by. With 'wait: failed' a worker that comes to the wait point "failed" stays there
 * until a reload takes the setting back; outside a transaction. With 'cut: t' one fails that comes by
 * with an object of that name. With 'forget: …' it is told to forget
 * all it knows of catalogs, as a look into them can at any time. They cost a comparison with NULL
 * otherwise.
 */
#ifndef SCD2_WORKER_FAILPOINT_H
#define SCD2_WORKER_FAILPOINT_H

#include "utils/inval.h"

#include "pg_scd2.h"
#include "worker/worker.h"

#define SCD2_FAIL_POINT(where) \
	do \
	{ \
		if (unlikely(scd2_debug_fail_at != NULL && strcmp(scd2_debug_fail_at, where) == 0)) \
			ereport(ERROR, \
					(errcode(ERRCODE_INTERNAL_ERROR), \
					 errmsg("injected failure: %s", where))); \
	} while (0)

/* "name" is only asked for if the setting is for such a place. */
#define SCD2_FAIL_POINT_OF(where, name) \
	do \
	{ \
		if (unlikely(scd2_debug_fail_at != NULL && strncmp(scd2_debug_fail_at, where ": ", strlen(where ": ")) == 0)) \
		{ \
			const char *name_ = (name); \
			if (name_ != NULL && strcmp(scd2_debug_fail_at + strlen(where ": "), name_) == 0) \
				ereport(ERROR, \
						(errcode(ERRCODE_INTERNAL_ERROR), \
						 errmsg("injected failure: %s: %s", where, name_))); \
		} \
	} while (0)

#define SCD2_WAIT_POINT(where) \
	do \
	{ \
		while (unlikely(scd2_debug_fail_at != NULL && strcmp(scd2_debug_fail_at, "wait: " where) == 0)) \
			scd2_worker_wait(10); \
	} while (0)

#define SCD2_FORGET_POINT(where) \
	do \
	{ \
		if (unlikely(scd2_debug_fail_at != NULL && strcmp(scd2_debug_fail_at, "forget: " where) == 0)) \
		{ \
			elog(LOG, "injected: forget: %s", where); \
			InvalidateSystemCaches(); \
		} \
	} while (0)

#endif							/* SCD2_WORKER_FAILPOINT_H */
