/*
 * flow.h
 *		A flow as the worker has it at hand: definition, layout of its relations, prepared statements.
 */
#ifndef SCD2_FLOW_FLOW_H
#define SCD2_FLOW_FLOW_H

#include "access/tupdesc.h"
#include "executor/spi.h"
#include "storage/itemptr.h"
#include "utils/timestamp.h"

#include "believed.h"
#include "flow/image.h"

/* Statements, each prepared when first needed and kept. */
typedef enum Scd2Statement
{
	SCD2_READ_RANGE,			/* versions ($1, $2] of the feed */
	SCD2_READ_TAIL,				/* the same from a place in the last leaf on ($3) */
	SCD2_READ_SEEN,				/* the same, of transactions that snapshot $3 sees (event tables: does not see); $4: the beginning */
	SCD2_READ_SOURCE,			/* the rows that are there; changes: that were at version $1, of time $2 */
	SCD2_READ_CUTS,				/* rows that the truncates $1 cut */
	SCD2_HORIZON,				/* when $1 has been seen and it was at $2 */
	SCD2_FORGET,				/* what is remembered below $1 */
	SCD2_REMEMBER_ENDS,			/* deletes that end rows at $1 */
	SCD2_COMPLETE,				/* what began rows when others ended that are to go, for they ended before $1 */
	SCD2_INSERT,
	SCD2_CLOSE_ROWS,
	SCD2_REWRITE,
	SCD2_DELETE_ROWS,
	SCD2_END_OTHERS,			/* a TRUNCATE ended all open rows, at $1, that were not touched otherwise */
	SCD2_N_STATEMENTS
} Scd2Statement;

/* Row changes on their way, as the statements see them. */
typedef enum Scd2Store
{
	SCD2_INSERTS,				/* columns, start, end */
	SCD2_CLOSES,				/* tid, end */
	SCD2_REWRITES,				/* tid, end, columns */
	SCD2_DELETES,				/* tid */
	SCD2_TOUCHED,				/* tid */
	SCD2_N_STORES
} Scd2Store;

/* Where the feed's last applied row is. What comes after is behind it. */
typedef struct Scd2Hint
{
	Oid			leaf;
	Oid			storage;		/* relfilenode: VACUUM FULL and CLUSTER move rows */
	ItemPointerData tid;
	int64		version;
} Scd2Hint;

/* How late its events may be (lateness.c). What is by reference lives as long as the batch. */
typedef struct Scd2Lateness
{
	bool		has_highest;
	bool		has_horizon;
	bool		has_lowest;
	Datum		highest;		/* sequence seen */
	Datum		horizon;
	Datum		lowest;			/* horizon of the flows into the target, before this batch */
	bool		joins;			/* comes behind a mark there */
	bool		moved;			/* the highest did, in this batch */
	bool		forgets;		/* this batch did */
	TimestampTz forgotten;		/* when it did last, in this process */
} Scd2Lateness;

/* What a flow makes of the rows of its feed. */
typedef enum Scd2Input
{
	SCD2_NET,					/* per key and version the net effect */
	SCD2_CHANGES,				/* each change is an event, with a sequence of its own */
	SCD2_EVENTS,				/* inserted rows are events */
	SCD2_SNAPSHOTS,				/* no feed: all rows of the source, from time to time (snapshot.c) */
	SCD2_APPEND					/* inserted rows are appended (append.c); no keys */
} Scd2Input;

typedef struct Scd2Flow
{
	MemoryContext cxt;			/* all of this */
	int			flow_id;
	int			feed_id;
	int			definition;
	bool		stale;			/* a relation changed: load it again */
	char	   *name;
	char	   *activity;		/* for pg_stat_activity */
	int			scd_type;
	Scd2Input	input;
	char	   *sequence_by;	/* expressions; NULL: not given */
	char	   *delete_sequence_by;
	char	   *end_sequence_by;
	char	   *apply_as_deletes;
	char	   *apply_as_truncates;
	char	   *source_filter;
	bool		quarantine;		/* of invalid events */
	char	   *max_lateness;	/* NULL: events are never too late, */
	char	   *purged_before;	/* unless they are below this, as text; NULL: it is not */
	bool		shared;			/* other flows write into the target too, or there are marks */
	bool		others;			/* other flows do */
	bool		closes;			/* changes that are the net effect of each version, at its commit: a delete yields to what the version brings */
	bool	   *absent;			/* columns that only others bring */
	bool		ignores_untracked;	/* NULL says nothing in a column that is not tracked */
	bool		once;			/* reads what is there one time */
	bool		rereads;		/* it has read most of what is there: the copy adds what it missed */
	bool		from_beginning; /* of event tables, the rows at the flow's beginning count, not those that are there (rebuild.c) */
	bool		feedless;		/* has no feed: what is said of the feed is the source's */
	char	   *kept_out;		/* columns that must not show in rejected events, an array as text */
	int			sequence_column;	/* type 1: position in columns of what sequence_by is, -1: an expression */
	int64		starting_version;	/* -1: the flow's own commit */
	char	   *foreign_until;	/* versions up to this came with a dump, a number as text */
	char	   *initial_start;	/* NULL: the beginning */
	List	   *settings;		/* "name=value" */

	Oid			author;			/* the role that it was written for, and acts as (rights.c) */
	bool		trusted;		/* a superuser's word: the code of others may run as him */
	Oid			target;
	Oid			target_index;	/* primary key */
	Oid			source;
	Oid			feed;
	Oid			leaf;			/* last partition of the feed */
	char	   *target_sql;		/* qualified, quoted */
	char	   *source_sql;
	char	   *gone;			/* columns of the feed that the source has no more, as they follow "*" in a SELECT; "": none */
	char	   *source_alias;
	char	   *feed_sql;
	char	   *leaf_sql;
	bool		source_partitioned;
	bool		all_images;		/* pre-images are needed even where the key stays (events.c) */

	int			nkeys;
	int		   *keys;			/* positions in columns */
	char	  **columns;
	char	   *start_column;
	char	   *end_column;
	char	   *current_column; /* NULL: none */
	Scd2Shape	shape;
	AttrNumber *attnums;		/* of columns in the target */
	AttrNumber	start_attnum;
	AttrNumber	end_attnum;
	AttrNumber	current_attnum; /* 0: none */
	FmgrInfo   *key_compare;	/* btree order of each key */
	FmgrInfo   *key_equal;
	Oid		   *key_less;
	Oid		   *key_collation;
	Oid		   *key_operator;	/* equality */
	Oid		   *key_opfamily;	/* of the primary key */
	Oid		   *key_opcintype;
	Oid			sequence_type;
	Oid			sequence_collation;
	int16		sequence_typlen;
	bool		sequence_typbyval;
	char		sequence_typalign;
	FmgrInfo	sequence_compare;
	FmgrInfo	sequence_less;
	FmgrInfo	sequence_not_less;

	Scd2Lateness lateness;

	/* What rows do not show of events (recall.c). */
	Oid			memory;			/* invalid: nothing is remembered */
	Oid			memory_index;
	char	   *memory_sql;
	AttrNumber *memory_attnums; /* of columns in the memory, 0: is not there */
	AttrNumber	memory_sequence;
	AttrNumber	memory_kind;
	AttrNumber	memory_version;
	AttrNumber	memory_ordinal;
	AttrNumber	memory_sequences;	/* 0: is not there */
	struct Scd2Mark *marks;		/* of the target, ascending */
	int			nmarks;
	int64		marks_upto;		/* the last that is in them, by id */
	struct Scd2Scope **scopes;	/* of snapshots among the marks */
	int			nscopes;

	struct Scd2Erased *erased;	/* keys whose events are not accepted up to a sequence; NULL: none */

	/* Snapshots. */
	char	   *scope;			/* expression over the keys; NULL: all */
	bool		delete_absent;
	char	   *max_delete_fraction;	/* a numeric, as text */
	char	   *version_query;	/* NULL: not given */
	bool		takes_snapshots;	/* the worker does: with a refresh_interval, or once */

	int64	   *skips;			/* versions that are left out, ascending */
	int			nskips;
	int64		most_versions;	/* in a batch; 0: any number (apply_worker.c) */
	int64		versions_tried; /* by the batch that was begun last */

	/* What target and memory must be (relations.c). */
	Scd2BelievedColumn *target_believed;
	int			ntarget_believed;
	Scd2BelievedColumn *memory_believed;
	int			nmemory_believed;

	TupleDesc	store_desc[SCD2_N_STORES];
	SPIPlanPtr	plans[SCD2_N_STATEMENTS];
	Scd2Hint	hint;
	int64		at_version;		/* in work, for errors; -1: none */
} Scd2Flow;

extern Scd2Flow *scd2_flow_load(int flow_id);
extern void scd2_flow_free(Scd2Flow *flow);
extern void scd2_flow_watch(void);
extern void scd2_use_written_settings(List *settings);
extern SPIPlanPtr scd2_flow_plan(Scd2Flow *flow, Scd2Statement which);
extern const char *scd2_store_name(Scd2Store store);
extern char *scd2_flow_start_sql(Scd2Flow *flow, const char *beginning);

#endif							/* SCD2_FLOW_FLOW_H */
