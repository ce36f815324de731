/*
 * work.h
 *		A batch of a flow in work: what is read, what is to be written.
 */
#ifndef SCD2_FLOW_WORK_H
#define SCD2_FLOW_WORK_H

#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "flow/finder.h"
#include "flow/flow.h"
#include "flow/timeline.h"
#include "identity.h"

typedef struct Scd2Direct Scd2Direct;
typedef struct Scd2Recall Scd2Recall;

/* How far the rows (or the memory) of the key in work are read. */
typedef enum Scd2Reading
{
	SCD2_READ_NOTHING,
	SCD2_READ_BELOW,			/* the last below the first event */
	SCD2_READING_ON,			/* those from there on */
	SCD2_READ_ALL
} Scd2Reading;

typedef struct Scd2Work
{
	Scd2Flow   *flow;
	MemoryContext cxt;			/* of the batch */
	MemoryContext key_cxt;		/* of the key in work */
	Relation	target;			/* locked as for writing */
	Relation	index;
	Scd2Identity before;		/* who we were */

	/* Looking up rows: while events are read. */
	Scd2Finder *rows;
	Scd2Reading reading;
	Scd2Recall *recall;			/* memory; NULL: the flow has none */
	Scd2Image	row_image;		/* of the row looked up last, in the slot */

	/* Where changes go: straight into the target, or (NULL) into stores, and from there by SQL. */
	Scd2Direct *direct;
	bool		plain_triggers; /* none but the guard */
	Tuplestorestate *stores[SCD2_N_STORES];
	int64		store_rows[SCD2_N_STORES];
	Datum	   *row_values;		/* work space for a row of a store */
	bool	   *row_nulls;

	/* What was read. */
	int64		events;
	int64		last_version;	/* highest with rows, -1: none */
	TimestampTz last_timestamp;
	ItemPointerData last_tid;	/* where that version ends, about */
	Oid			last_leaf;
	Scd2Place	copied_at;		/* place of rows that were there; version 0: none */
	bool		truncated;
	TimestampTz truncated_at;	/* the first TRUNCATE */
	Scd2Mark   *marks;			/* of the target, with those of this batch; ascending */
	int			nmarks;
	Datum	   *cuts;			/* new ones, ascending */
	int			ncuts;
	int			cuts_recorded;	/* of those, in the catalog */
	Tuplestorestate *rejects;	/* NULL: none */

	/* What became of events. */
	int64		duplicates;
	int64		out_of_order;
	int64		conflicts;
	int64		rejected;
	int64		too_late;
	int64		skipped;
	char	   *highest;		/* NULL: as it was; else where the flow's lateness is now, as text */
	char	   *horizon;

	/* What was written. */
	int64		inserted;
	int64		updated;
	int64		deleted;
} Scd2Work;

/* work.c */
extern Scd2Work *scd2_work_begin(Scd2Flow *flow);
extern void scd2_work_end(Scd2Work *work);
extern Scd2Timeline scd2_work_timeline(Scd2Work *work, Scd2TimelineUse use);
extern void scd2_work_emit(void *work, const Scd2Change *change);
extern void scd2_work_truncated(Scd2Work *work, TimestampTz at);
extern void scd2_work_touch(Scd2Work *work, const Scd2Row *row);
extern void scd2_work_begin_key(Scd2Work *work, const Datum *key);
extern bool scd2_work_last_row(Scd2Work *work, Scd2Row *row);
extern Scd2Image *scd2_work_image_before(Scd2Work *work, const Scd2Row *row);
extern Scd2Row *scd2_work_next_row(Scd2Work *work, Datum lowest);
extern void scd2_work_start_lookups(Scd2Work *work);
extern void scd2_work_stop_lookups(Scd2Work *work);
extern void scd2_work_write(Scd2Work *work);
extern void scd2_work_again(Scd2Work *work);

/* events.c */
extern ParamListInfo scd2_params(SPIPlanPtr plan, int nargs, const Datum *args);
extern void scd2_read_events(Scd2Work *work, Scd2Statement which, int nargs, const Datum *args);

/* arrivals.c */
extern char *scd2_invalid_sequence(Oid type, Datum sequence, const char *what);
extern void scd2_use_settings(Scd2Flow *flow, Scd2Statement which);
extern void scd2_read_arrivals(Scd2Work *work, Scd2Statement which, int nargs, const Datum *args);
extern void scd2_read_cuts(Scd2Work *work);
extern void scd2_finish_arrivals(Scd2Work *work);

#endif							/* SCD2_FLOW_WORK_H */
