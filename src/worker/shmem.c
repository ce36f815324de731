/*
 * shmem.c
 *		What the workers and the sessions of a server share.
 *
 * One entry per database that has the extension, and one word per feed: its latest version, so that
 * an idle flow costs nothing.
 *
 * Locking. "lock" guards the list of databases, who works where (pids, latches) and errors; it is
 * held for a few instructions only. What changes with every batch is atomic and read without it. A
 * session asks scd2_my_database() at each commit: it remembers its answer and asks again only when
 * "generation" moved, so a database without the extension pays one atomic read.
 *
 * A latch is that of a PGPROC, which is never freed: setting the latch of a worker that has just
 * died wakes at worst a stranger for nothing.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#include "pg_scd2.h"
#include "worker/shmem.h"

#define MAX_FEEDS 4096			/* of the whole server; more are served without the shortcut */

typedef struct FeedKey
{
	Oid			dboid;
	int			feed_id;
} FeedKey;

typedef struct FeedEntry
{
	FeedKey		key;
	pg_atomic_uint64 latest;
} FeedEntry;

Scd2Shmem  *scd2_shmem = NULL;

static HTAB *feeds = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(add_size(sizeof(Scd2Shmem),
									hash_estimate_size(MAX_FEEDS, sizeof(FeedEntry))));
	RequestNamedLWLockTranche("pg_scd2", 1);
}

static void
init_database(Scd2Database *db)
{
	pg_atomic_init_u64(&db->wake_lsn, 0);
	pg_atomic_init_u64(&db->captured_lsn, 0);
	pg_atomic_init_u64(&db->caught_up, 0);
	pg_atomic_init_u64(&db->version, 0);
	pg_atomic_init_u64(&db->spilled, 0);
	pg_atomic_init_u64(&db->moved, 0);
	pg_atomic_init_u64(&db->moved_at, 0);
	pg_atomic_init_u64(&db->moved_from, 0);
	pg_atomic_init_u64(&db->moved_to, 0);
	pg_atomic_init_u32(&db->recheck, 0);
	pg_atomic_init_u32(&db->rechecked, 0);
	pg_atomic_init_u32(&db->run_now, 0);
	pg_atomic_init_u64(&db->look_since, 0);
	pg_atomic_init_u32(&db->flows_changed, 0);
	ConditionVariableInit(&db->progress);
}

static void
startup_shmem(void)
{
	HASHCTL ctl = {.keysize = sizeof(FeedKey), .entrysize = sizeof(FeedEntry)};
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	scd2_shmem = ShmemInitStruct("pg_scd2", sizeof(Scd2Shmem), &found);
	if (!found)
	{
		memset(scd2_shmem, 0, sizeof(Scd2Shmem));
		scd2_shmem->lock = &GetNamedLWLockTranche("pg_scd2")->lock;
		pg_atomic_init_u32(&scd2_shmem->generation, 1);
		for (int i = 0; i < SCD2_MAX_DATABASES; i++)
			init_database(&scd2_shmem->databases[i]);
	}
	feeds = ShmemInitHash("pg_scd2 feeds", MAX_FEEDS, MAX_FEEDS, &ctl,
						  HASH_ELEM | HASH_BLOBS);
	LWLockRelease(AddinShmemInitLock);
}

void
scd2_shmem_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

bool
scd2_shmem_available(void)
{
	return scd2_shmem != NULL;
}

/* The caller holds the lock. */
Scd2Database *
scd2_find_database(Oid dboid)
{
	for (int i = 0; i < SCD2_MAX_DATABASES; i++)
		if (scd2_shmem->databases[i].dboid == dboid)
			return &scd2_shmem->databases[i];
	return NULL;
}

Scd2Database *
scd2_my_database(void)
{
	static Scd2Database *mine = NULL;
	static uint32 asked = 0;
	uint32		generation;

	if (scd2_shmem == NULL || !OidIsValid(MyDatabaseId))
		return NULL;
	generation = pg_atomic_read_u32(&scd2_shmem->generation);
	if (generation != asked)
	{
		LWLockAcquire(scd2_shmem->lock, LW_SHARED);
		mine = scd2_find_database(MyDatabaseId);
		LWLockRelease(scd2_shmem->lock);
		asked = generation;
	}
	return mine;
}

/* Workers that failed are started again at once. The caller holds the lock. */
void
scd2_retry_now(Scd2Database *db)
{
	db->retry_at = 0;
	memset(db->apply_retry_at, 0, sizeof(db->apply_retry_at));
}

/*
 * Makes or finds the entry of a database and has the launcher start its workers. Without the
 * library preloaded nothing happens. Raises 54000 when SCD2_MAX_DATABASES databases have entries.
 */
void
scd2_want_workers(Oid dboid)
{
	Scd2Database *db;

	if (scd2_shmem == NULL)
		return;
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	db = scd2_find_database(dboid);
	if (db == NULL)
		db = scd2_find_database(InvalidOid);
	if (db != NULL)
	{
		if (db->dboid != dboid)
		{
			db->dboid = dboid;
			db->state = SCD2_CAPTURE_OFF;
			db->failures = 0;
			db->error[0] = '\0';
			memset(db->apply_failures, 0, sizeof(db->apply_failures));
			db->apply_error[0] = '\0';
			pg_atomic_write_u64(&db->captured_lsn, 0);
			pg_atomic_write_u64(&db->caught_up, 0);
			pg_atomic_write_u64(&db->version, 0);
			pg_atomic_write_u64(&db->moved, 0);
		}
		if (db->state == SCD2_CAPTURE_STOPPED || db->state == SCD2_CAPTURE_COPY)
			db->state = SCD2_CAPTURE_STARTING;	/* so that who calls sync() next waits */
		db->wanted = true;
		db->wishes++;
		scd2_retry_now(db);
		pg_atomic_fetch_add_u32(&scd2_shmem->generation, 1);
	}
	LWLockRelease(scd2_shmem->lock);
	if (db == NULL)
		ereport(WARNING,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("no workers for database %u: %d databases have pg_scd2 already",
						dboid, SCD2_MAX_DATABASES)));
	scd2_wake_launcher();
}

/*
 * The launcher found that a database is gone, or has no extension, and no process of ours is in it.
 * Nothing is done if somebody wants workers by now.
 */
void
scd2_free_database(Scd2Database *db)
{
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	if (!db->wanted)
	{
		db->dboid = InvalidOid;
		pg_atomic_fetch_add_u32(&scd2_shmem->generation, 1);
	}
	LWLockRelease(scd2_shmem->lock);
}

bool
scd2_capture_has_heard(Scd2Database *db)
{
	return pg_atomic_read_u32(&db->rechecked) == pg_atomic_read_u32(&db->recheck);
}

int64
scd2_feed_latest(int feed_id)
{
	FeedKey		key = {MyDatabaseId, feed_id};
	FeedEntry  *entry;
	int64		latest = -1;

	if (scd2_shmem == NULL)
		return -1;
	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	entry = hash_search(feeds, &key, HASH_FIND, NULL);
	if (entry)
		latest = (int64) pg_atomic_read_u64(&entry->latest);
	LWLockRelease(scd2_shmem->lock);
	return latest;
}

void
scd2_feed_set_latest(int feed_id, int64 version)
{
	FeedKey		key = {MyDatabaseId, feed_id};
	FeedEntry  *entry;
	bool		found;

	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	entry = hash_search(feeds, &key, HASH_FIND, NULL);
	if (entry)
		pg_atomic_write_u64(&entry->latest, (uint64) version);
	LWLockRelease(scd2_shmem->lock);
	if (entry)
		return;

	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	entry = hash_search(feeds, &key, HASH_ENTER_NULL, &found);
	if (entry)
		pg_atomic_init_u64(&entry->latest, (uint64) version);
	LWLockRelease(scd2_shmem->lock);
}

void
scd2_feed_forget(int feed_id)
{
	FeedKey		key = {MyDatabaseId, feed_id};

	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	hash_search(feeds, &key, HASH_REMOVE, NULL);
	LWLockRelease(scd2_shmem->lock);
}

/* All feeds of this database: what an earlier worker, or an extension that was dropped, left behind. */
void
scd2_feed_forget_all(void)
{
	HASH_SEQ_STATUS seq;
	FeedEntry  *entry;

	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	hash_seq_init(&seq, feeds);
	while ((entry = hash_seq_search(&seq)) != NULL)
		if (entry->key.dboid == MyDatabaseId)
			hash_search(feeds, &entry->key, HASH_REMOVE, NULL);
	LWLockRelease(scd2_shmem->lock);
}

/* Wakes this database's capture worker, which flushes the log up to "upto" if nobody else did. */
void
scd2_wake_capture(XLogRecPtr upto)
{
	Scd2Database *db = scd2_my_database();
	Latch	   *latch;
	uint64		seen;

	if (db == NULL)
		return;
	seen = pg_atomic_read_u64(&db->wake_lsn);
	while (seen < upto &&
		   !pg_atomic_compare_exchange_u64(&db->wake_lsn, &seen, upto))
		;
	latch = *(Latch *volatile *) &db->capture_latch;
	if (latch)
		SetLatch(latch);
}

static void
wake_apply(bool all)
{
	Scd2Database *db = scd2_my_database();

	if (db == NULL)
		return;
	for (int i = 0; i < SCD2_MAX_APPLY; i++)
	{
		Latch	   *latch = *(Latch *volatile *) &db->apply_latch[i];

		if (latch && (all || db->apply_at_home[i]))
			SetLatch(latch);
	}
}

void
scd2_wake_apply(void)
{
	wake_apply(true);
}

void
scd2_wake_apply_at_home(void)
{
	wake_apply(false);
}

void
scd2_wake_launcher(void)
{
	Latch	   *latch;

	if (scd2_shmem == NULL)
		return;
	latch = *(Latch *volatile *) &scd2_shmem->launcher_latch;
	if (latch)
		SetLatch(latch);
}

void
scd2_progress(void)
{
	Scd2Database *db = scd2_my_database();

	if (db)
		ConditionVariableBroadcast(&db->progress);
}
