/*
 * timeline.c
 *		From events and existing rows of one key to the fewest row changes.
 *
 * The caller gives the existing rows that can be concerned and the new events, merged by sequence (a row at its start; at equal sequence rows before
 * events, events in their tie order). Rows are events again: an upsert at the start, a close at the end. Of the events at one sequence the last counts, but a
 * close yields to any other. The events that count form runs: a longest block of upserts equal in all tracked columns is one row of the target. Each finished run is
 * compared with the existing row that has its start, and what differs is emitted; existing rows whose start begins no run are deleted.
 *
 * All is streamed: what is held is one event (another at its sequence may follow), one run and the pending end of a row, so a hot key with
 * thousands of versions needs no more memory than one with two.
 *
 * Type 1 is the same with one run without bounds: what counts last is the row.
 *
 * Nothing here knows relations, SPI or transactions.
 */
#include "postgres.h"

#include "flow/timeline.h"

static int
compare(Scd2Timeline *t, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(&t->compare, t->collation, a, b));
}

void
scd2_timeline_begin(Scd2Timeline *t)
{
	t->has_event = t->in_run = t->has_end = false;
	t->image = t->run_image = NULL;
	t->row = t->run_row = NULL;
}

static void
emit(Scd2Timeline *t, Scd2ChangeKind kind, const Scd2Row *row, Datum end, bool open)
{
	Scd2Change	change = {
		.kind = kind,
		.row = row,
		.start = t->run_start,
		.end = end,
		.open = open,
		.image = t->run_image
	};

	t->emit(t->arg, &change);
}

/* The usual close leaves the row's own image in place: nothing to compare. */
static bool
image_kept(Scd2Timeline *t, const Scd2Row *row)
{
	return t->run_image == row->image ||
		scd2_image_equal(t->shape, t->run_image, row->image->values, row->image->isnull);
}

/* The run is complete: what differs from the row that has its start? */
static void
finish_run(Scd2Timeline *t, Datum end, bool open)
{
	const Scd2Row *row = t->run_row;

	Assert(t->in_run);
	if (row == NULL)
		emit(t, SCD2_ROW_INSERT, NULL, end, open);
	else if (!image_kept(t, row) || (open && !row->open))
		emit(t, SCD2_ROW_REWRITE, row, end, open);
	else if (!open && (row->open || compare(t, end, row->end) != 0))
		emit(t, SCD2_ROW_CLOSE, row, end, open);
	scd2_image_drop(t->run_image);
	t->in_run = false;
	t->run_image = NULL;
	t->run_row = NULL;
}

static void
begin_run(Scd2Timeline *t)
{
	t->in_run = true;
	t->run_start = t->sequence;
	t->run_image = t->image;
	t->run_row = t->row;
}

/* The pending event counts: no other has its sequence. */
static void
settle(Scd2Timeline *t)
{
	if (!t->has_event)
		return;
	t->has_event = false;
	if (t->kind == SCD2_UPSERT && t->in_run &&
		scd2_image_equal_tracked(t->shape, t->run_image, t->image))
	{
		scd2_image_drop(t->run_image);
		t->run_image = t->image;
	}
	else
	{
		if (t->in_run)
			finish_run(t, t->sequence, false);
		if (t->kind == SCD2_UPSERT)
		{
			begin_run(t);
			return;
		}
	}
	if (t->row != NULL)
		emit(t, SCD2_ROW_DELETE, t->row, (Datum) 0, true);
}

static void push(Scd2Timeline *t, Datum sequence, Scd2EventKind kind, Scd2Image *image, const Scd2Row *row);

/* The end of an existing row comes before "sequence", or is no event of its own. */
static void
pass_row_end(Scd2Timeline *t, Datum sequence)
{
	int			order;

	if (!t->has_end)
		return;
	order = compare(t, t->end, sequence);
	if (order > 0)
		return;
	t->has_end = false;
	if (order < 0)
		push(t, t->end, SCD2_CLOSE, NULL, NULL);
}

static void
push(Scd2Timeline *t, Datum sequence, Scd2EventKind kind, Scd2Image *image, const Scd2Row *row)
{
	pass_row_end(t, sequence);
	if (t->has_event && compare(t, t->sequence, sequence) == 0)
	{
		if (kind == SCD2_CLOSE)
			return;
		scd2_image_drop(t->image);
		if (row != NULL)
			t->row = row;
	}
	else
	{
		settle(t);
		t->row = row;
	}
	t->has_event = true;
	t->sequence = sequence;
	t->kind = kind;
	t->image = image;
}

/*
 * Next existing row of the key. "row" and its image, which must be borrowed, live until scd2_timeline_end().
 */
void
scd2_timeline_row(Scd2Timeline *t, const Scd2Row *row)
{
	Assert(row->image->borrowed);
	if (t->scd_type == 1)
	{
		t->run_row = row;
		t->run_image = row->image;
		return;
	}
	push(t, row->start, SCD2_UPSERT, row->image, row);
	if (!row->open)
	{
		t->has_end = true;
		t->end = row->end;
	}
}

/*
 * Next event of the key. The image becomes the timeline's.
 */
void
scd2_timeline_event(Scd2Timeline *t, Datum sequence, Scd2EventKind kind, Scd2Image *image)
{
	if (t->scd_type == 1)
	{
		scd2_image_drop(t->run_image);
		t->run_image = image;	/* NULL: the key is gone */
		return;
	}
	push(t, sequence, kind, image, NULL);
}

static void
finish_current(Scd2Timeline *t)
{
	const Scd2Row *row = t->run_row;

	if (t->run_image == NULL)
	{
		if (row != NULL)
			emit(t, SCD2_ROW_DELETE, row, (Datum) 0, true);
	}
	else if (row == NULL)
		emit(t, SCD2_ROW_INSERT, NULL, (Datum) 0, true);
	else if (!image_kept(t, row))
		emit(t, SCD2_ROW_REWRITE, row, (Datum) 0, true);
	scd2_image_drop(t->run_image);
}

void
scd2_timeline_end(Scd2Timeline *t)
{
	if (t->scd_type == 1)
	{
		finish_current(t);
		return;
	}
	if (t->has_end)
	{
		t->has_end = false;
		push(t, t->end, SCD2_CLOSE, NULL, NULL);
	}
	settle(t);
	if (t->in_run)
		finish_run(t, (Datum) 0, true);
}
