/*
 * shmem.c
 *		What the workers and the sessions of a server share.
 *
 * One entry per database that has the extension, and one word per feed: its latest version, so that
 * an idle flow costs nothing.
 *
 * Entries are few (pg_scd2.max_databases). One of a database that nobody wants workers for only
 * tells why none run, which its catalogs tell as well: it is given to the next database that needs
 * one. It is free at once when its database was dropped, and with it the words of its feeds.
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

static Size
shmem_size(void)
{
	return add_size(offsetof(Scd2Shmem, databases), mul_size(scd2_max_databases, sizeof(Scd2Database)));
}

static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(add_size(shmem_size(), hash_estimate_size(MAX_FEEDS, sizeof(FeedEntry))));
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
	scd2_shmem = ShmemInitStruct("pg_scd2", shmem_size(), &found);
	if (!found)
	{
		memset(scd2_shmem, 0, shmem_size());
		scd2_shmem->lock = &GetNamedLWLockTranche("pg_scd2")->lock;
		pg_atomic_init_u32(&scd2_shmem->generation, 1);
		for (int i = 0; i < scd2_max_databases; i++)
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
	for (int i = 0; i < scd2_max_databases; i++)
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

/* The caller holds the lock. */
static void
forget_feeds_of(Oid dboid)
{
	HASH_SEQ_STATUS seq;
	FeedEntry  *entry;

	hash_seq_init(&seq, feeds);
	while ((entry = hash_seq_search(&seq)) != NULL)
		if (entry->key.dboid == dboid)
			hash_search(feeds, &entry->key, HASH_REMOVE, NULL);
}

static bool
has_workers(const Scd2Database *db)
{
	for (int i = 0; i < SCD2_MAX_APPLY; i++)
		if (db->apply_pid[i] != 0)
			return true;
	return db->capture_pid != 0;
}

/* The caller holds the lock. A worker that was started for it and is not there yet finds no entry, and goes. */
static void
free_entry(Scd2Database *db)
{
	forget_feeds_of(db->dboid);
	db->dboid = InvalidOid;
	db->wanted = false;
	pg_atomic_fetch_add_u32(&scd2_shmem->generation, 1);
}

/* An entry for another database; NULL: there is none. The caller holds the lock. */
static Scd2Database *
find_free(void)
{
	Scd2Database *db = scd2_find_database(InvalidOid);

	for (int i = 0; db == NULL && i < scd2_max_databases; i++)
		if (!scd2_shmem->databases[i].wanted && !has_workers(&scd2_shmem->databases[i]))
			free_entry(db = &scd2_shmem->databases[i]);
	return db;
}

static void
take_entry(Scd2Database *db, Oid dboid)
{
	db->dboid = dboid;
	db->state = SCD2_CAPTURE_OFF;
	db->napply = 0;
	db->failures = 0;
	db->error[0] = '\0';
	memset(db->apply_failures, 0, sizeof(db->apply_failures));
	db->apply_error[0] = '\0';
	db->blamed_feed = 0;
	pg_atomic_write_u64(&db->captured_lsn, 0);
	pg_atomic_write_u64(&db->caught_up, 0);
	pg_atomic_write_u64(&db->version, 0);
	pg_atomic_write_u64(&db->spilled, 0);
	pg_atomic_write_u64(&db->moved, 0);
	pg_atomic_write_u64(&db->look_since, 0);
}

/*
 * Makes or finds the entry of a database and has the launcher start its workers. Without the
 * library preloaded nothing happens. A WARNING (54000) if there is no entry left.
 */
void
scd2_want_workers(Oid dboid)
{
	Scd2Database *db;

	if (scd2_shmem == NULL)
		return;
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	db = scd2_find_database(dboid);
	if (db == NULL && (db = find_free()) != NULL)
		take_entry(db, dboid);
	if (db != NULL)
	{
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
				 errmsg("no workers for database %u: %d databases have pg_scd2 already", dboid, scd2_max_databases),
				 errhint("ALTER SYSTEM SET pg_scd2.max_databases = %d; -- then restart the server", scd2_max_databases * 2)));
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
	if (!db->wanted && !has_workers(db))
		free_entry(db);
	LWLockRelease(scd2_shmem->lock);
}

void
scd2_forget_database(Oid dboid)
{
	Scd2Database *db;

	if (scd2_shmem == NULL)
		return;
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	db = scd2_find_database(dboid);
	if (db != NULL)
		db->wanted = false;
	if (db != NULL && !has_workers(db))
		free_entry(db);
	LWLockRelease(scd2_shmem->lock);
}

bool
scd2_entries_are_taken(void)
{
	bool		taken = true;

	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	for (int i = 0; i < scd2_max_databases; i++)
	{
		const Scd2Database *db = &scd2_shmem->databases[i];

		taken &= OidIsValid(db->dboid) && (db->wanted || has_workers(db));
	}
	LWLockRelease(scd2_shmem->lock);
	return taken;
}

bool
scd2_feed_is_looked_after(int feed_id)
{
	Scd2Database *db = scd2_my_database();

	for (int i = 0; db != NULL && i < SCD2_MAX_APPLY; i++)
		if (db->apply_feed[i] == feed_id)
			return true;
	return false;
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
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	forget_feeds_of(MyDatabaseId);
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
