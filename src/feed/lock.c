/*
 * lock.c
 *		Locks on feeds that nobody is waited for.
 *
 * A feed is its owner's table, and who has a lock on it may keep it for hours: capture tries its locks,
 * and where one is not to be had, the feed's changes wait (capture/backlog.c). Only our own apply workers
 * are waited for, OURS_LEAVE_WITHIN: while they cut a partition off they have the feed to themselves, for
 * some milliseconds. They wait for no lock then, and we wait in no queue, so there is no deadlock.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "pg_scd2.h"
#include "feed/lock.h"
#include "worker/shmem.h"

#define OURS_LEAVE_WITHIN	200	/* ms */
#define LOOK_EVERY			1

static bool
try_lock(int feed_id, Oid relid, LOCKMODE mode)
{
	TimestampTz until = 0;

	while (!ConditionalLockRelationOid(relid, mode))
	{
		TimestampTz now = GetCurrentTimestamp();

		if (until == 0)
			until = TimestampTzPlusMilliseconds(now, OURS_LEAVE_WITHIN);
		if (now >= until)
			return false;
		if (!scd2_feed_is_looked_after(feed_id))
			return ConditionalLockRelationOid(relid, mode); /* we may have left in between */
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_EVERY, PG_WAIT_EXTENSION);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/* False: somebody has a lock in the way. */
bool
scd2_take_lock(Scd2Locks *locks, Oid relid, LOCKMODE mode)
{
	if (locks->until != 0 && GetCurrentTimestamp() < locks->until)
		LockRelationOid(relid, mode);
	else if (!try_lock(locks->feed_id, relid, mode))
		return false;
	locks->relids = lappend_oid(locks->relids, relid);
	locks->modes = lappend_int(locks->modes, mode);
	return true;
}

/* A table, what it keeps long values in, and the indexes of both. */
bool
scd2_take_locks_of_table(Scd2Locks *locks, Oid relid, LOCKMODE mode)
{
	Relation	rel;
	Oid			toast;
	ListCell   *lc;
	bool		locked = true;

	if (!scd2_take_lock(locks, relid, mode))
		return false;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		return true;			/* the write will say so */
	foreach(lc, RelationGetIndexList(rel))
		locked = locked && scd2_take_lock(locks, lfirst_oid(lc), mode);
	toast = rel->rd_rel->reltoastrelid;
	relation_close(rel, NoLock);
	return locked && (!OidIsValid(toast) || scd2_take_locks_of_table(locks, toast, mode));
}

/* Whoever changes the columns of a feed changes those of all partitions. */
bool
scd2_take_locks_of_feed(Scd2Locks *locks, Oid feed_relid)
{
	ListCell   *lc;

	if (!scd2_take_locks_of_table(locks, feed_relid, AccessExclusiveLock))
		return false;
	foreach(lc, find_inheritance_children(feed_relid, NoLock))
		if (!scd2_take_locks_of_table(locks, lfirst_oid(lc), AccessExclusiveLock))
			return false;
	return true;
}

void
scd2_give_locks_back(const Scd2Locks *locks)
{
	ListCell   *relid;
	ListCell   *mode;

	forboth(relid, locks->relids, mode, locks->modes)
		UnlockRelationOid(lfirst_oid(relid), lfirst_int(mode));
}
