/*
 * batch.h
 *		What the decoder has read and the feeds do not have yet.
 */
#ifndef SCD2_CAPTURE_BATCH_H
#define SCD2_CAPTURE_BATCH_H

#include "access/htup.h"
#include "access/tupdesc.h"
#include "access/xlogdefs.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "capture/rows.h"
#include "feed/metadata.h"

typedef enum Scd2ChangeType
{
	SCD2_INSERT,
	SCD2_UPDATE_PREIMAGE,
	SCD2_UPDATE_POSTIMAGE,
	SCD2_DELETE,
	SCD2_TRUNCATE
} Scd2ChangeType;

#define SCD2_FORMER_COLUMN	(-1)	/* source_attnum of one that is not written yet */

/* What a column of a feed's rows is (layout.c). */
typedef struct Scd2Column
{
	int16		source_attnum;	/* whose values it has, also when that was dropped; 0: nobody's, negative: nobody's any more */
	int16		feed_attnum;	/* in the feed relation; 0: it does not have it yet */
	int			replaces;		/* the column that rows buffered before its type changed have, -1: none */
	bool		replaced;		/* by such a one; or it came and went in one transaction */
	TransactionId came_with;	/* the transaction at hand, if it brought the column */
	int16		was;			/* whose values it had until the type of that changed, 0: nobody's */
	int64		until;			/* the version of that */
	bool		gone;			/* the source dropped it */
	int64		gone_at;		/* in the midst of this version, 0: not in the midst of one */
	bool		has_missing;	/* rows buffered before it was added have this value */
	Datum		missing;
} Scd2Column;

/* A column of the source that is kept out. */
typedef struct Scd2Excluded
{
	char	   *name;
	int16		source_attnum;	/* 0: not met yet */
} Scd2Excluded;

/* A captured table. Lives as long as it is captured. */
typedef struct Scd2Feed
{
	int			feed_id;
	Oid			source_relid;	/* a partitioned root too */
	Oid			feed_relid;
	MemoryContext cxt;			/* of all that hangs on it */
	TupleDesc	layout;			/* of the buffered rows: the feed's columns, dropped ones left out */
	Scd2Column *columns;		/* as many */
	List	   *excluded;		/* of Scd2Excluded */
	Datum	   *values;			/* scratch, one per column of layout */
	bool	   *isnull;

	struct Scd2Backlog *backlog;	/* what of it could not be written and waits (backlog.h); NULL: nothing */
	bool		looked;			/* nothing stands on it that may not, nor on */
	Oid			leaf_relid;		/* its partition that was written last */

	/* In the batch at hand. */
	bool		touched;		/* it is in the batch's list */
	bool		columns_changed;	/* the relation has to follow the layout */
	Scd2Column *columns_before; /* columns as they were before that was tried; NULL: it was not */
	Scd2Rows   *rows;			/* NULL: none */
	int64		first_version;	/* of these rows */
	int64		last_version;
	char	   *misfit;			/* why the source as it is now does not fit the feed; NULL: it does */
	char	   *retyped;		/* a column is kept beside a new one, as its rows have values of their own there; NULL: none, or that is settled */
	char	   *failure;		/* why the feed cannot go on; NULL: it can */
	int64		failed_version; /* the first version it lacks */
	bool		repairs;		/* a repair of that begins behind the transaction at hand, */
	bool		goes_on;		/* and has begun */
} Scd2Feed;

/* A control record met in the log, with its place. */
typedef struct Scd2Control
{
	char	   *kind;
	int			feed_id;		/* 0: none */
	int			flow_id;
	Oid			source_relid;
	Oid			feed_relid;
	char	   *detail;
	bool		no_rows;
	int64		version;		/* the last version before it (enable), up to its commit (begin flow), or its own (resync) */
	TimestampTz timestamp;
	int64		control_id;
} Scd2Control;

/* A batch: whole transactions, in commit order. One per worker, reset after each write. */
typedef struct Scd2Batch
{
	MemoryContext cxt;			/* reset with the batch */
	ResourceOwner owner;		/* of the row buffers' files */
	List	   *feeds;			/* of Scd2Feed: those with rows or failures, in the order met */
	List	   *controls;		/* of Scd2Control, in log order */
	TransactionId *xids;		/* top transactions with changes of ours */
	int			nxids;
	int			maxxids;
	Scd2RowMemory memory;		/* of the row buffers */
	int64		changes;		/* rows and controls */
	bool		ends;			/* with the transaction at hand */
	XLogRecPtr	end_lsn;		/* end of the last transaction decoded, of whatever content */
	XLogRecPtr	captured_end;	/* end of the last one that left something here */

	/* The state of the clock and the counter after the batch. */
	int64		version;
	TimestampTz timestamp;

	/* The transaction being decoded. */
	TransactionId xid;
	uint64		full_xid;
	TimestampTz commit_time;
	bool		has_version;
	bool		repairs;		/* there are feeds whose repair begins behind it */
	TimestampTz version_timestamp;	/* of its version */
	int			ordinal;
	int			first_control;	/* length of controls when it began */
} Scd2Batch;

extern Scd2Batch *scd2_batch_create(MemoryContext parent, int64 version, TimestampTz timestamp);
extern void scd2_batch_reset(Scd2Batch *batch);
extern void scd2_batch_begin_transaction(Scd2Batch *batch, TransactionId xid, TimestampTz commit_time, Size memory);
extern bool scd2_batch_is_full(const Scd2Batch *batch, int max_changes);
extern void scd2_batch_end_transaction(Scd2Batch *batch, XLogRecPtr end_lsn);
extern TimestampTz scd2_batch_tick(Scd2Batch *batch);
extern void scd2_batch_take_version(Scd2Batch *batch);
extern void scd2_batch_add_row(Scd2Batch *batch, Scd2Feed *feed, Scd2ChangeType type);
extern void scd2_batch_add_image(Scd2Batch *batch, Scd2Feed *feed, Scd2ChangeType type, HeapTuple image);
extern void scd2_batch_add_control(Scd2Batch *batch, Scd2Control *control);
extern void scd2_batch_change_columns(Scd2Batch *batch, Scd2Feed *feed);
extern void scd2_batch_fail_feed(Scd2Batch *batch, Scd2Feed *feed, const char *why);
extern void scd2_batch_repair_feed(Scd2Batch *batch, Scd2Feed *feed, const char *why);

#endif							/* SCD2_CAPTURE_BATCH_H */
