/*
 * shmem.h
 *		What the workers and the sessions of a server share.
 */
#ifndef SCD2_WORKER_SHMEM_H
#define SCD2_WORKER_SHMEM_H

#include "access/xlogdefs.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#define SCD2_MAX_APPLY		16
#define SCD2_ERROR_LEN		256

/* What a worker is at. "command that leaves it" is given by scd2.capture and scd2.diagnose(). */
typedef enum Scd2CaptureState
{
	SCD2_CAPTURE_OFF,			/* no worker */
	SCD2_CAPTURE_STARTING,		/* connected, not decoding yet */
	SCD2_CAPTURE_CREATING_SLOT, /* waits for running transactions to end */
	SCD2_CAPTURE_RUNNING,
	SCD2_CAPTURE_FAILED,		/* the last worker ended with an error; retried after a while */
	SCD2_CAPTURE_STOPPED,		/* scd2.stop() */
	SCD2_CAPTURE_COPY			/* the database is a copy of one that was captured: until scd2.resume_capture() */
} Scd2CaptureState;

/* One database that has the extension. Fields without another word are guarded by Scd2Shmem.lock. */
typedef struct Scd2Database
{
	Oid			dboid;			/* InvalidOid: the entry is free */
	bool		wanted;			/* the launcher keeps workers running */
	uint32		wishes;			/* grows whenever somebody wants them */
	int			napply;			/* apply workers wanted */
	Scd2CaptureState state;
	pid_t		capture_pid;	/* 0: none; who is named here lives, and ends only after taking its name away */
	Latch	   *capture_latch;
	pid_t		apply_pid[SCD2_MAX_APPLY];
	Latch	   *apply_latch[SCD2_MAX_APPLY];
	volatile bool apply_at_home[SCD2_MAX_APPLY];	/* without the lock: has flows of its own to apply */
	volatile int apply_feed[SCD2_MAX_APPLY];	/* likewise: the feed that it may alter now, 0: none */
	int			failures;		/* of the capture worker, in a row */
	TimestampTz retry_at;		/* launcher: not before */
	char		error[SCD2_ERROR_LEN];
	int			apply_failures[SCD2_MAX_APPLY];	/* likewise, of each apply worker; flows that fail are none */
	TimestampTz apply_retry_at[SCD2_MAX_APPLY];
	char		apply_error[SCD2_ERROR_LEN];
	int			blamed_feed;	/* at whose change the capture worker died last (capture/blame.c), 0: none, */
	XLogRecPtr	blamed_at;		/* where in the log, */
	int			blamed_times;	/* how often in a row, */
	char		blamed_error[SCD2_ERROR_LEN];	/* and of what */

	/* Without the lock. */
	pg_atomic_uint64 wake_lsn;	/* capture flushes up to here: the highest commit that woke it */
	pg_atomic_uint64 captured_lsn;	/* every commit before it is in the feeds, committed; 0: not known */
	pg_atomic_uint64 version;	/* last version in the feeds */
	pg_atomic_uint64 caught_up; /* when capture last stood at the end of the log, a TimestampTz; 0: not known. Outlives the worker */
	pg_atomic_uint64 spilled;	/* bytes the decoder wrote to disk */
	pg_atomic_uint64 moved;		/* commits whose version got another time than theirs (capture/clock.c); of the last of them: */
	pg_atomic_uint64 moved_at;	/* when it was captured */
	pg_atomic_uint64 moved_from;	/* its own time, */
	pg_atomic_uint64 moved_to;	/* and its version's */
	pg_atomic_uint32 recheck;	/* grows when the workers shall look: extension there, not stopped, position theirs? */
	pg_atomic_uint32 rechecked; /* as far as the capture worker has looked */
	pg_atomic_uint32 run_now;	/* grows when flows with a refresh_interval shall not wait for it */
	pg_atomic_uint64 look_since;	/* a TimestampTz: flows that take snapshots shall have looked at their source since then */
	pg_atomic_uint32 flows_changed; /* grows whenever a flow's definition or state may have changed */
	ConditionVariable progress; /* capture or a flow went on */
} Scd2Database;

typedef struct Scd2Shmem
{
	LWLock	   *lock;
	pg_atomic_uint32 generation;	/* of the list of databases */
	pid_t		launcher_pid;
	Latch	   *launcher_latch;
	bool		probed;			/* a launcher has had every database looked into since the server started */
	Scd2Database databases[FLEXIBLE_ARRAY_MEMBER];	/* pg_scd2.max_databases */
} Scd2Shmem;

extern Scd2Shmem *scd2_shmem;	/* NULL: the library is not preloaded */

extern void scd2_shmem_init(void);	/* from _PG_init, with the library preloaded */
extern bool scd2_shmem_available(void);

/*
 * This process's database; NULL if the library is not preloaded or no worker knows the database.
 * Cheap: may be asked at each commit.
 */
extern Scd2Database *scd2_my_database(void);

extern bool scd2_feed_is_looked_after(int feed_id); /* by an apply worker, which may alter it */

/*
 * Has the capture worker heard everything that it was asked? Until then it may be one that captures
 * for a position that is another's by now.
 */
extern bool scd2_capture_has_heard(Scd2Database *db);

/* For the launcher: the caller of the first and the last holds the lock. */
extern Scd2Database *scd2_find_database(Oid dboid);
extern void scd2_free_database(Scd2Database *db);
extern void scd2_forget_database(Oid dboid);	/* it was dropped */
extern bool scd2_entries_are_taken(void);	/* every entry is that of a database that wants workers, or still has some */
extern void scd2_retry_now(Scd2Database *db);

/*
 * A version at or above the latest of a feed of this database, -1 if not known (then: any up to the
 * position's version).
 */
extern int64 scd2_feed_latest(int feed_id);
extern void scd2_feed_set_latest(int feed_id, int64 version);
extern void scd2_feed_forget(int feed_id);
extern void scd2_feed_forget_all(void);

/* Wakes. None of them fails or waits. */
extern void scd2_wake_capture(XLogRecPtr upto);
extern void scd2_wake_apply(void);
extern void scd2_wake_apply_at_home(void);	/* only workers with flows of their own */
extern void scd2_wake_launcher(void);
extern void scd2_progress(void);	/* tells those who wait in sync() */

/* Makes or finds the entry of a database and has the launcher start its workers. */
extern void scd2_want_workers(Oid dboid);

#endif							/* SCD2_WORKER_SHMEM_H */
