/*
 * pg_scd2.h
 *		Settings, and what every part needs to know of the extension.
 */
#ifndef PG_SCD2_H
#define PG_SCD2_H

#include "nodes/pg_list.h"

#define SCD2_EXTENSION		"pg_scd2"
#define SCD2_SCHEMA			"scd2"
#define SCD2_INTERNAL		"scd2_internal"
#define SCD2_PLUGIN			"pg_scd2"

/*
 * Condition on a row of feed_state, flow_state or purge: it is this database's own, not (yet) one that a
 * restore brought. Workers act on no other.
 */
#define SCD2_AT_HOME(alias) \
	alias ".home = (SELECT h.id FROM scd2_internal.home AS h)"

/* Settings, each described where it is defined (pg_scd2.c). */
extern int	scd2_naptime;			/* ms */
extern char *scd2_feed_retention;	/* an interval as text */
extern int	scd2_decoding_work_mem; /* kB */
extern int	scd2_batch_changes;
extern int	scd2_max_apply_workers;
extern int	scd2_max_databases;		/* with entries in shared memory (worker/shmem.c) */
extern int	scd2_lock_timeout;		/* ms */
extern int	scd2_max_slot_lag;		/* MB, -1: none */
extern int	scd2_reader_timeout;	/* s, 0: never */
extern int	scd2_feed_backlog;		/* kB, of each feed */
extern int	scd2_max_partition_copy;	/* kB, -1: no limit */
extern bool scd2_enable_change_feed_on_create;
extern bool scd2_enabled;
extern bool scd2_allow_target_writes;
extern bool scd2_own_ddl;		/* feed/bare.c */
extern char *scd2_library_version;	/* pg_scd2.debug_version, for tests */
extern char *scd2_debug_fail_at;	/* worker/failpoint.h */
extern int	scd2_debug_leaf_size;	/* kB */
extern int	scd2_debug_leaf_age;	/* ms */
extern int	scd2_debug_upkeep_every;	/* ms */
extern int	scd2_debug_purge_size;	/* kB */
extern int	scd2_debug_drain_size;	/* kB */
extern int	scd2_debug_max_ordinal;

extern List *scd2_caller_path;	/* call.c */
extern void scd2_refuse_in_worker(const char *function);
#define SCD2_TEXT_SETTINGS	10
extern const char *const scd2_text_settings[SCD2_TEXT_SETTINGS][2];	/* name, value; call.c */

#endif							/* PG_SCD2_H */
