/*
 * timeline.h
 *		From events and existing rows of one key to the fewest row changes.
 */
#ifndef SCD2_FLOW_TIMELINE_H
#define SCD2_FLOW_TIMELINE_H

#include "fmgr.h"
#include "storage/itemptr.h"

#include "flow/image.h"

/* In the order in which they win at equal sequence. */
typedef enum Scd2EventKind
{
	SCD2_CLOSE,					/* a delete that yields to any other event at its sequence */
	SCD2_UPSERT,
	SCD2_DELETE
} Scd2EventKind;

/*
 * Where an event stands in a feed: orders equal sequences. Version 0: nowhere. (Where NULL says
 * nothing, upserts that have a place are whole, and there are no closes that have one.)
 */
typedef struct Scd2Place
{
	int64		version;
	int32		ordinal;
} Scd2Place;

typedef struct Scd2Event
{
	Datum		sequence;
	Scd2EventKind kind;
	Scd2Place	place;
	Scd2Image  *image;			/* of an upsert */
	bool		implied;		/* by a mark, or the end of a row that is an event: not counted */
} Scd2Event;

/* A row of the target as it is. */
typedef struct Scd2Row
{
	ItemPointerData tid;
	Datum		start;
	Datum		end;
	bool		open;			/* no end */
	Scd2Image  *image;
} Scd2Row;

/* What is remembered of an event because the rows do not show it. */
typedef enum Scd2MemoryKind
{
	SCD2_REMEMBER_HIDDEN = 'u', /* an upsert that is not the first of its run */
	SCD2_REMEMBER_START = 'v',	/* an upsert that is: its place */
	SCD2_REMEMBER_DELETE = 'd',
	SCD2_REMEMBER_CLOSE = 'c',
	SCD2_REMEMBER_SENT = 's',	/* NULL says nothing: an upsert as it was sent, */
	SCD2_REMEMBER_WHOLE = 'w'	/* whole, with a NULL that is a value */
} Scd2MemoryKind;

typedef struct Scd2Memory
{
	ItemPointerData tid;		/* of what is there already */
	Datum		sequence;
	Scd2MemoryKind kind;
	Scd2Place	place;
	Scd2Image  *before;			/* hidden: the untracked values of the event before it; other columns do not count. NULL: all are tracked */
	Scd2Image  *sent;			/* sent, whole */
	Datum	   *since;			/* type 1, where NULL says nothing: since when each column is as it is, */
	bool	   *never;			/* unless it never was sent */
} Scd2Memory;

/*
 * An event of every key: a truncate, or a complete snapshot. A truncate that is a close, and a mark
 * that yields, change what the end of a row at its sequence means: who adds one remembers the
 * deletes that end rows there (and only there: the former comes from a feed whose sequence is its
 * commit time).
 */
typedef struct Scd2Mark
{
	Datum		sequence;
	bool		snapshot;		/* the key was as it is just before the sequence; else it was deleted */
	/*
	 * A horizon: a snapshot just before all else that is at its sequence. (Once it has become an
	 * event of the key, because something older came, it ties with what comes at its sequence like
	 * any upsert.)
	 */
	bool		yields;
	Scd2EventKind kind;			/* of a truncate: SCD2_DELETE or SCD2_CLOSE */
	int			scope;			/* of a snapshot: which of the flow's scopes (scope.c), -1: it speaks of every key */
} Scd2Mark;

/* (Starts and ends are those of histories: type 1 rows have none.) */
typedef enum Scd2ChangeKind
{
	SCD2_ROW_INSERT,			/* start, end, image */
	SCD2_ROW_CLOSE,				/* row, end */
	SCD2_ROW_REWRITE,			/* row, image, end */
	SCD2_ROW_DELETE				/* row */
} Scd2ChangeKind;

typedef struct Scd2Change
{
	Scd2ChangeKind kind;
	const Scd2Row *row;
	Datum		start;
	Datum		end;
	bool		open;
	const Scd2Image *image;
} Scd2Change;

/* How a batch looks at the key in work, and what it does with the result. */
typedef struct Scd2TimelineUse
{
	void	   *arg;

	/*
	 * Existing rows of the key, ascending, from the last that begins below the first event on; its
	 * memory, from the first that is not below it on, where NULL says nothing from the last that is.
	 * What they return lives until the key is done. (Type 1: the row is asked for before its memory.)
	 */
	Scd2Row *(*next_row)(void *arg);
	Scd2Memory *(*next_memory)(void *arg); /* NULL: nothing is remembered */

	/*
	 * Where NULL says nothing (and untracked columns do so): the image of the row that ends where
	 * the first one given begins, NULL if there is none. May be asked for once the first row has
	 * been given.
	 */
	Scd2Image *(*image_before)(void *arg, const Scd2Row *row);

	/* Does a complete snapshot speak of the key? NULL: each of all keys. */
	bool (*in_scope)(void *arg, const Scd2Mark *mark);

	void (*change)(void *arg, const Scd2Change *change);
	void (*remember)(void *arg, const Scd2Memory *was, const Scd2Memory *now); /* one of them may be NULL */
} Scd2TimelineUse;

/* What became of the events that came in. */
typedef struct Scd2Counts
{
	int64		events;
	int64		duplicates;
	int64		out_of_order;
	int64		conflicts;
} Scd2Counts;

/* An event that follows from rows and memory. */
typedef struct Scd2OldEvent
{
	bool		valid;
	Scd2Event	event;
	const Scd2Row *starts;		/* the row that begins with it */
	const Scd2Row *cover;		/* upsert: the row it is part of */
	const Scd2Memory *memory;	/* that it was read from */
	Scd2Image  *state;			/* upsert: the key as it was after it; the event's image, but for what that does not say */
	bool		unread;			/* what is remembered of it was not given */
	bool		forgotten;		/* what it sent is below the horizon: it is taken as whole */
} Scd2OldEvent;

/*
 * The first event of the run being formed, where NULL says nothing: it is remembered unless it
 * turns out to be the only one and sends all.
 */
typedef struct Scd2First
{
	bool		pending;
	bool		unread;
	bool		forgotten;
	Datum		sequence;
	Scd2Place	place;
	Scd2Image  *sent;
	const Scd2Memory *memory;
} Scd2First;

/* Type 1, where NULL says nothing: the key as it is so far (partial.c). */
typedef struct Scd2Current
{
	const Scd2Row *row;
	const Scd2Memory *memory;
	bool		known;			/* there is a last event: its sequence, was it an upsert */
	bool		live;
	bool		marked;			/* it was no upsert, and a mark says so */
	Datum		sequence;
	Scd2Image	image;
	Datum	   *since;
	bool	   *never;
	Scd2Place	place;			/* of the last event that has one, if any, */
	Datum		placed;			/* and its sequence */
} Scd2Current;

/* One key's timeline, in work. Set the first group once, the rest is begun anew for each key. */
typedef struct Scd2Timeline
{
	const Scd2Shape *shape;
	int			scd_type;
	FmgrInfo	compare;		/* of sequences */
	Oid			collation;
	int16		sequence_typlen;
	bool		sequence_typbyval;
	bool		remembers;		/* memory is kept */
	bool		remembers_places;
	const Scd2Mark *marks;		/* ascending */
	int			nmarks;
	Scd2TimelineUse use;
	Scd2Counts	counts;

	/* New events at one sequence: the one that counts so far, and how many there were. */
	bool		has_new;
	Scd2Event	new;
	int			n_new;			/* not counting duplicates */
	bool		touched;		/* one was met: what comes before it is as it was */
	bool		ending;			/* there are no more */

	/* What is there, read ahead. */
	bool		started;		/* type 1, where NULL says nothing */
	Scd2Row    *next_row;
	Scd2Memory *next_memory;
	bool		rows_done;
	bool		memory_done;
	const Scd2Row *inside;		/* the row whose events are being read */
	Scd2OldEvent old;			/* the next old event, if valid */
	bool		old_done;
	bool		first_old;		/* nothing of it has been read */
	Scd2Image  *old_image;		/* the key as it was after the last old event, NULL: not there */
	const Scd2Row *old_cover;
	int			next_mark;		/* -1: not looked for */

	/* The run being formed. */
	bool		in_run;
	Datum		run_start;
	Scd2Image  *run_image;
	Scd2First	first;
	bool		as_was;			/* where NULL says nothing: the key is now as it was after the last old event */
	Scd2Current current;
	const Scd2Row *run_row;		/* existing row with the run's start; type 1: of the key */
} Scd2Timeline;

extern int	scd2_place_compare(const Scd2Place *a, const Scd2Place *b);
extern void scd2_timeline_begin(Scd2Timeline *timeline);
extern void scd2_timeline_event(Scd2Timeline *timeline, const Scd2Event *event);
extern void scd2_timeline_end(Scd2Timeline *timeline);

#endif							/* SCD2_FLOW_TIMELINE_H */
