/*
 * worker.h
 *		What capture and apply workers have in common.
 */
#ifndef SCD2_WORKER_WORKER_H
#define SCD2_WORKER_WORKER_H

#include "worker/shmem.h"

/* Who a worker is: travels in bgw_extra. */
typedef struct Scd2WorkerArg
{
	Oid			dboid;
	int			apply_slot;		/* -1: capture */
} Scd2WorkerArg;

/*
 * First call of a worker's main: signals, connection as the bootstrap superuser, fixed settings
 * (search_path, time zone, timeouts …), registration in shared memory, removal from it at exit.
 * Returns the database's entry. A worker of a database without the extension, or stopped, or one
 * that finds another in its place, does not return: the process ends quietly.
 */
extern Scd2Database *scd2_worker_begin(Scd2WorkerArg *arg);

/*
 * One turn of a worker's loop: waits for its latch at most "ms" (-1: no limit), reloads settings,
 * ends the process when told to.
 */
extern void scd2_worker_wait(long ms);
extern void scd2_drop_orphaned_slots(void);

/*
 * A transaction of an apply worker, connected to SPI, with a snapshot; what it allocates is in
 * "work", which the caller resets.
 */
extern void scd2_worker_begin_work(MemoryContext work, const char *what);
extern void scd2_worker_end_work(void);

/*
 * The apply worker may alter a feed from now on; 0: no longer. Capture gives what that locks some time
 * (feed/lock.c).
 */
extern void scd2_worker_looks_after(int feed_id);

/* For scd2.capture: what the capture worker is at. */
extern void scd2_worker_set_state(Scd2CaptureState state);
extern void scd2_worker_end_quietly(Scd2CaptureState state);
extern void scd2_worker_succeeded(void);

/*
 * Runs a worker's loop. An error ends the process, for nothing in its memory is worth keeping: with
 * the error, or quietly if what went wrong is that the extension was dropped.
 */
extern void scd2_worker_run(void (*loop)(void));

/* From the error that ends the process: whatever failed before, another one is to try again within a second. */
extern void scd2_worker_retry_soon(void);

/* True in capture and apply workers: their writes pass the guard triggers on feeds and targets. */
extern bool scd2_in_worker;

PGDLLEXPORT void scd2_launcher_main(Datum arg);
PGDLLEXPORT void scd2_capture_main(Datum arg);
PGDLLEXPORT void scd2_apply_main(Datum arg);

#endif							/* SCD2_WORKER_WORKER_H */
