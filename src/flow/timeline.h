/*
 * timeline.h
 *		From events and existing rows of one key to the fewest row changes.
 */
#ifndef SCD2_FLOW_TIMELINE_H
#define SCD2_FLOW_TIMELINE_H

#include "fmgr.h"
#include "storage/itemptr.h"

#include "flow/image.h"

typedef enum Scd2EventKind
{
	SCD2_UPSERT,
	SCD2_CLOSE,					/* a delete that yields to any other event at its sequence */
	SCD2_DELETE
} Scd2EventKind;

/* A row of the target as it is. */
typedef struct Scd2Row
{
	ItemPointerData tid;
	Datum		start;
	Datum		end;
	bool		open;			/* no end */
	Scd2Image  *image;
} Scd2Row;

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

typedef void (*Scd2Emit)(void *arg, const Scd2Change *change);

/* One key's timeline, in work. Set the first group once, the rest is begun anew for each key. */
typedef struct Scd2Timeline
{
	const Scd2Shape *shape;
	int			scd_type;
	FmgrInfo	compare;		/* of sequences */
	Oid			collation;
	Scd2Emit	emit;
	void	   *arg;

	bool		has_event;		/* the last event, not yet in a run: another at its sequence may win */
	Datum		sequence;
	Scd2EventKind kind;
	Scd2Image  *image;
	const Scd2Row *row;			/* that starts at it */

	bool		in_run;
	Datum		run_start;
	Scd2Image  *run_image;
	const Scd2Row *run_row;		/* existing row with the run's start; type 1: of the key */

	bool		has_end;		/* the end of the last existing row, an event still to come */
	Datum		end;
} Scd2Timeline;

extern void scd2_timeline_begin(Scd2Timeline *timeline);
extern void scd2_timeline_row(Scd2Timeline *timeline, const Scd2Row *row);
extern void scd2_timeline_event(Scd2Timeline *timeline, Datum sequence, Scd2EventKind kind, Scd2Image *image);
extern void scd2_timeline_end(Scd2Timeline *timeline);

#endif							/* SCD2_FLOW_TIMELINE_H */
