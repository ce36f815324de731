/*
 * slot_limit.c
 *		pg_scd2.max_slot_lag: slots that hold back too much WAL are given up.
 *
 * An administrator who would rather lose changes than fill the disk says how much WAL a slot of ours
 * may hold back. The launcher looks, since whatever holds the slot up may hold up or end the capture
 * worker too: workers that are stopped, a lock on a feed, an error that comes again and again, or an
 * application's transaction that stays open.
 *
 * A slot beyond the limit is dropped. If a process has it, that is ended first and the slot dropped at
 * the next look; no worker is started for the database meanwhile. What follows is what follows any
 * lost slot: the next capture worker finds it gone, declares the gap of each feed from the place
 * that was reached, and makes another slot. One that is being made holds back WAL too, as long as
 * it waits for a transaction to end: then it begins again.
 *
 * The server's own max_slot_wal_keep_size is for all slots, acts at checkpoints only, and ends in the
 * same gap.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xlog.h"
#include "replication/slot.h"
#include "storage/lwlock.h"

#include "pg_scd2.h"
#include "compat.h"
#include "worker/slot_limit.h"

/* What is to be known of a slot beyond the limit. */
typedef struct Excess
{
	NameData	name;
	Oid			database;
	pid_t		pid;			/* who has it, 0: nobody */
	XLogRecPtr	confirmed;
	uint64		held;			/* bytes */
} Excess;

static bool
is_beyond(ReplicationSlot *slot, XLogRecPtr end, Excess *excess)
{
	bool		beyond = false;

	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	if (slot->in_use && strcmp(NameStr(slot->data.plugin), SCD2_PLUGIN) == 0)
	{
		SpinLockAcquire(&slot->mutex);
		beyond = (slot->data.persistency == RS_PERSISTENT || slot->active_pid != 0) && !scd2_slot_is_invalid(slot) &&
			slot->data.restart_lsn != InvalidXLogRecPtr && slot->data.restart_lsn < end;
		excess->name = slot->data.name;
		excess->database = slot->data.database;
		excess->pid = slot->active_pid;
		excess->confirmed = slot->data.confirmed_flush;
		excess->held = beyond ? end - slot->data.restart_lsn : 0;
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(ReplicationSlotControlLock);
	return beyond && excess->held > (uint64) scd2_max_slot_lag * 1024 * 1024;
}

static void
drop(const Excess *excess)
{
	ReplicationSlotDrop(NameStr(excess->name), true);
	ereport(WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("replication slot \"%s\" of database %u was given up: it held back " UINT64_FORMAT " MB of WAL",
					NameStr(excess->name), excess->database, excess->held / (1024 * 1024)),
			 errdetail("pg_scd2.max_slot_lag is %d MB. Changes after %X/%X are not captured.",
					   scd2_max_slot_lag, LSN_FORMAT_ARGS(excess->confirmed)),
			 errhint("SELECT * FROM scd2.diagnose(); -- in that database, when its workers run")));
}

/* Somebody may have taken the slot meanwhile. That is no reason for the launcher to end: it looks again. */
static void
drop_safely(const Excess *excess)
{
	MemoryContext cxt = CurrentMemoryContext;

	PG_TRY();
	{
		drop(excess);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		EmitErrorReport();
		FlushErrorState();
		LWLockReleaseAll();
		if (MyReplicationSlot != NULL)
			ReplicationSlotRelease();
	}
	PG_END_TRY();
}

/*
 * Drops the slots of ours that hold back more than pg_scd2.max_slot_lag. Returns the databases (oids,
 * in the current memory context) whose slot has to go but is held by a process, which was told to
 * end: no worker of theirs may start before the next look. In the launcher, outside a transaction.
 */
List *
scd2_give_up_slots(void)
{
	XLogRecPtr	end = GetFlushRecPtr(NULL);
	List	   *held = NIL;

	if (scd2_max_slot_lag < 0)
		return NIL;
	for (int i = 0; i < max_replication_slots; i++)
	{
		Excess		excess;

		if (!is_beyond(&ReplicationSlotCtl->replication_slots[i], end, &excess))
			continue;
		if (excess.pid == 0)
			drop_safely(&excess);
		else
		{
			kill(excess.pid, SIGTERM);
			held = lappend_oid(held, excess.database);
		}
	}
	return held;
}
