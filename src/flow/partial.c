/*
 * partial.c
 *		Upserts that do not send all columns: NULL means "not sent" in some.
 *
 * An image is *partial*, as an event brings it, or *whole*, as a row is; in a whole one NULL is a
 * value in every column. A partial image is resolved against the image before it: what it does not
 * send is as it was, unless the key was not there. Upserts at one sequence are one: of each column
 * the greatest value that is sent. That is a union, so their order does not matter.
 *
 * Type 2 resolves each event again when something changed before it (timeline.c), so what events
 * sent is remembered: see remember_first() there.
 *
 * Type 1 needs less. Of each column only the last value that was sent counts, and a delete takes
 * away what was sent up to it. So per column one sequence is remembered: since when it is as it is,
 * by a value or (NULL) by a delete. All is the greatest of something, and again the order of events
 * does not matter. (A close would not fit in: whether it counts depends on whether an upsert was at
 * its sequence, which nobody remembers. Flows over feeds bring deletes instead: arrivals.c.)
 *
 * Events that have a place are whole. So no column is older than the last of them, and those that
 * are as old are as it says: one place is remembered, of the oldest columns.
 */
#include "postgres.h"

#include "utils/datum.h"

#include "flow/partial.h"

/*
 * Does an image say anything of a column?
 */
bool
scd2_sends(const Scd2Shape *shape, const Scd2Image *image, int column)
{
	return image->whole || !image->isnull[column] || !shape->ignores_null[column];
}

/*
 * Would the image be the same if it were whole?
 */
bool
scd2_sends_all(const Scd2Shape *shape, const Scd2Image *image)
{
	for (int i = 0; i < shape->ncolumns; i++)
		if (image->isnull[i] && shape->ignores_null[i])
			return false;
	return true;
}

/*
 * The image, whole: with what it does not send as it was before (NULL: there was nothing). A copy
 * in the current memory context, or the image itself if it sends all.
 */
Scd2Image *
scd2_image_resolve(const Scd2Shape *shape, Scd2Image *image, const Scd2Image *before)
{
	int			n = shape->ncolumns;
	Datum	   *values;
	bool	   *isnull;
	Scd2Image  *whole;

	if (image->whole || scd2_sends_all(shape, image))
		return image;
	values = palloc(n * sizeof(Datum));
	isnull = palloc(n * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		const Scd2Image *from = before == NULL || scd2_sends(shape, image, i) ? image : before;

		values[i] = from->values[i];
		isnull[i] = from->isnull[i];
	}
	whole = scd2_image_copy(shape, values, isnull);
	whole->whole = true;
	pfree(values);
	pfree(isnull);
	return whole;
}

/* Which of two images at one sequence decides on a column? */
static const Scd2Image *
greater(const Scd2Shape *shape, int column, const Scd2Image *a, const Scd2Image *b, bool *conflict)
{
	int			order;

	if (!scd2_sends(shape, b, column))
		return a;
	if (!scd2_sends(shape, a, column))
		return b;
	order = scd2_column_compare(shape, column, a, b);
	*conflict |= order != 0;
	return order < 0 ? b : a;
}

/*
 * What two images at one sequence send together: "a" itself if "b" adds nothing, else a copy in the
 * current memory context. "conflict": both send a column, differently.
 */
Scd2Image *
scd2_image_merge(const Scd2Shape *shape, Scd2Image *a, Scd2Image *b, bool *conflict)
{
	int			n = shape->ncolumns;
	Datum	   *values = palloc(n * sizeof(Datum));
	bool	   *isnull = palloc(n * sizeof(bool));
	bool		adds = b->whole && !a->whole && !scd2_sends_all(shape, a);
	Scd2Image  *merged = a;

	*conflict = false;
	for (int i = 0; i < n; i++)
	{
		const Scd2Image *from = greater(shape, i, a, b, conflict);

		adds |= from == b;
		values[i] = from->values[i];
		isnull[i] = from->isnull[i];
	}
	if (adds)
	{
		merged = scd2_image_copy(shape, values, isnull);
		merged->whole = a->whole || b->whole;
	}
	pfree(values);
	pfree(isnull);
	return merged;
}

/* ---- type 1 ---- */

static int
compare(Scd2Timeline *t, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(&t->compare, t->collation, a, b));
}

/* The place remembered is that of the oldest columns, of a deleted key the delete's. */
static void
read_place(Scd2Timeline *t)
{
	Scd2Current *c = &t->current;

	c->place = c->memory->place;
	c->placed = c->sequence;
	for (int i = 0; i < t->shape->ncolumns; i++)
		if (t->shape->ignores_null[i] && !c->never[i] && compare(t, c->since[i], c->placed) < 0)
			c->placed = c->since[i];
}

/* What is there of the key. */
static void
read_current(Scd2Timeline *t)
{
	Scd2Current *c = &t->current;
	int			n = t->shape->ncolumns;
	const Scd2Row *row;

	if (t->started)
		return;
	t->started = true;
	memset(c, 0, sizeof(*c));
	c->image.values = palloc0(n * sizeof(Datum));
	c->image.isnull = palloc(n * sizeof(bool));
	c->image.whole = true;
	memset(c->image.isnull, true, n * sizeof(bool));
	c->since = palloc0(n * sizeof(Datum));
	c->never = palloc(n * sizeof(bool));
	memset(c->never, true, n * sizeof(bool));
	row = c->row = t->use.next_row(t->use.arg);
	c->memory = t->use.next_memory(t->use.arg);
	c->live = row != NULL;
	for (int i = 0; row != NULL && i < n; i++)
	{
		c->image.values[i] = row->image->values[i];
		c->image.isnull[i] = row->image->isnull[i];
	}
	/* (What is below the horizon is forgotten, and older than all that comes.) */
	if (c->memory == NULL)
		return;
	c->known = true;
	c->sequence = c->memory->sequence;
	for (int i = 0; i < n; i++)
	{
		/* A deleted key is so in each column. */
		c->since[i] = row != NULL ? c->memory->since[i] : c->sequence;
		c->never[i] = row != NULL && c->memory->never[i];
	}
	read_place(t);
}

/* How an event at "sequence" stands to one at another: > 0 later. */
static int
against(const Scd2Current *c, Scd2Timeline *t, Datum sequence, const Scd2Place *place, Datum other)
{
	const Scd2Place nowhere = {0};
	const Scd2Place *others;
	int			order = compare(t, sequence, other);

	if (order != 0)
		return order;
	others = c->place.version != 0 && compare(t, c->placed, other) == 0 ? &c->place : &nowhere;
	return scd2_place_compare(place, others);
}

/* To the last. */
static int
against_last(const Scd2Current *c, Scd2Timeline *t, Datum sequence, const Scd2Place *place)
{
	return c->known ? against(c, t, sequence, place, c->sequence) : 1;
}

static int
against_column(const Scd2Current *c, Scd2Timeline *t, int i, Datum sequence, const Scd2Place *place)
{
	return c->never[i] ? 1 : against(c, t, sequence, place, c->since[i]);
}

/*
 * Is a column of an upsert newer than what is there, or as new and greater? What a delete took away
 * at its sequence stays so.
 */
static bool
column_wins(const Scd2Current *c, Scd2Timeline *t, int i, const Scd2Event *event)
{
	int			order;

	if (!scd2_sends(t->shape, event->image, i))
		return false;
	if (!t->shape->ignores_null[i])
	{
		order = against_last(c, t, event->sequence, &event->place);
		return order > 0 || (order == 0 && c->live && scd2_column_compare(t->shape, i, event->image, &c->image) > 0);
	}
	order = against_column(c, t, i, event->sequence, &event->place);
	return order > 0 || (order == 0 && !c->image.isnull[i] && scd2_column_compare(t->shape, i, event->image, &c->image) > 0);
}

/* Did what an upsert says come from its sequence already; does something else? */
static void
count_upsert(Scd2Timeline *t, const Scd2Event *event)
{
	const Scd2Current *c = &t->current;
	int			last = against_last(c, t, event->sequence, &event->place);
	bool		same = last <= 0;
	bool		evidence = last == 0 && c->live;
	bool		conflict = false;

	for (int i = 0; i < t->shape->ncolumns && same; i++)
	{
		bool		known = t->shape->ignores_null[i] ? against_column(c, t, i, event->sequence, &event->place) == 0 : last == 0 && c->live;

		if (!scd2_sends(t->shape, event->image, i) || (!known && !t->shape->ignores_null[i]))
			continue;
		same = known && scd2_column_compare(t->shape, i, event->image, &c->image) == 0;
		conflict |= known && !same && !c->image.isnull[i];
		evidence |= same;
	}
	t->counts.duplicates += same && evidence;
	t->counts.conflicts += conflict;
}

/* The event is taken: is it the last that has a place? */
static void
take_place(Scd2Timeline *t, const Scd2Event *event)
{
	Scd2Current *c = &t->current;

	if (event->place.version == 0 || (c->place.version != 0 && against(c, t, event->sequence, &event->place, c->placed) <= 0))
		return;
	c->place = event->place;
	c->placed = event->sequence;
}

static void
take_upsert(Scd2Timeline *t, const Scd2Event *event)
{
	Scd2Current *c = &t->current;
	bool		is_last = against_last(c, t, event->sequence, &event->place) > 0;

	for (int i = 0; i < t->shape->ncolumns; i++)
	{
		if (!column_wins(c, t, i, event))
			continue;
		c->image.values[i] = event->image->values[i];
		c->image.isnull[i] = event->image->isnull[i];
		c->since[i] = event->sequence;
		c->never[i] = false;
	}
	take_place(t, event);
	if (!is_last)
		return;
	c->known = c->live = true;
	c->marked = false;
	c->sequence = event->sequence;
}

/* (Without a place of its own, a delete beats the upserts at its sequence that have none.) */
static void
take_delete(Scd2Timeline *t, const Scd2Event *event)
{
	Scd2Current *c = &t->current;
	bool		is_last = against_last(c, t, event->sequence, &event->place) >= 0;

	for (int i = 0; i < t->shape->ncolumns; i++)
		if (t->shape->ignores_null[i] && against_column(c, t, i, event->sequence, &event->place) >= 0)
		{
			c->image.isnull[i] = true;
			c->since[i] = event->sequence;
			c->never[i] = false;
		}
	take_place(t, event);
	if (!is_last)
		return;
	c->marked = (event->implied || (c->marked && compare(t, event->sequence, c->sequence) == 0)) &&
		(c->place.version == 0 || compare(t, c->placed, event->sequence) != 0);
	c->known = true;
	c->live = false;
	c->sequence = event->sequence;
}

/* Is an event older than a complete snapshot (or a horizon), which says all of the key? */
static bool
is_overtaken(Scd2Timeline *t, Datum sequence)
{
	for (int i = t->nmarks - 1; i >= 0 && compare(t, t->marks[i].sequence, sequence) > 0; i--)
		if (t->marks[i].snapshot && (t->use.in_scope == NULL || t->use.in_scope(t->use.arg, &t->marks[i])))
			return true;
	return false;
}

/* Was the key there just before a sequence? (What is older than a delete is not there any more.) */
static bool
is_there_before(Scd2Timeline *t, Datum sequence)
{
	const Scd2Current *c = &t->current;

	if (!c->live || !c->known || compare(t, c->sequence, sequence) <= 0)
		return c->live;
	for (int i = 0; i < t->shape->ncolumns; i++)
		if (t->shape->ignores_null[i] && !c->never[i] && compare(t, c->since[i], sequence) <= 0)
			return true;
	return false;
}

/*
 * An upsert meets a complete snapshot at its own sequence, which is an event there too: of the key
 * as it was just before, whole, so that of each column the greater value counts; or a delete, which
 * wins. True: it does. (An upsert that has a place has nothing to do with it.)
 */
static bool
meet_snapshot(Scd2Timeline *t, Datum sequence)
{
	const Scd2Place nowhere = {0};
	Scd2Current *c = &t->current;
	bool		met = false;

	for (int i = t->nmarks - 1; i >= 0 && !met && compare(t, t->marks[i].sequence, sequence) >= 0; i--)
		met = t->marks[i].snapshot && !t->marks[i].yields && (t->use.in_scope == NULL || t->use.in_scope(t->use.arg, &t->marks[i]));
	if (!met)
		return false;
	if (!is_there_before(t, sequence))
		return true;
	for (int i = 0; i < t->shape->ncolumns; i++)
		if (t->shape->ignores_null[i] && against_column(c, t, i, sequence, &nowhere) > 0)
		{
			c->since[i] = sequence;
			c->never[i] = false;
		}
	if (against_last(c, t, sequence, &nowhere) > 0)
	{
		c->known = true;
		c->sequence = sequence;
	}
	return false;
}

/*
 * Next event of the key of a type 1 target.
 */
void
scd2_partial_event(Scd2Timeline *t, const Scd2Event *event)
{
	Scd2Current *c = &t->current;

	read_current(t);
	if (!event->implied)
	{
		t->counts.events++;
		t->counts.out_of_order += c->memory != NULL && compare(t, event->sequence, c->memory->sequence) < 0;
	}
	if (is_overtaken(t, event->sequence) || (event->kind == SCD2_UPSERT && event->place.version == 0 && meet_snapshot(t, event->sequence)))
		return;
	if (!t->has_new)
		t->new.sequence = event->sequence;	/* the lowest */
	t->has_new = true;
	if (event->kind == SCD2_UPSERT)
	{
		if (!event->implied)
			count_upsert(t, event);
		take_upsert(t, event);
		return;
	}
	Assert(event->kind == SCD2_DELETE);
	t->counts.duplicates += !event->implied && c->known && !c->live && compare(t, event->sequence, c->sequence) == 0;
	take_delete(t, event);
}

static bool
same_since(Scd2Timeline *t, const Scd2Current *c)
{
	for (int i = 0; i < t->shape->ncolumns; i++)
		if (t->shape->ignores_null[i] &&
			(c->never[i] != c->memory->never[i] ||
			 (!c->never[i] && compare(t, c->since[i], c->memory->since[i]) != 0)))
			return false;
	return true;
}

/* The place of the oldest columns; see read_place(). */
static Scd2Place
place_to_remember(Scd2Timeline *t)
{
	const Scd2Current *c = &t->current;
	bool		says_any;

	if (c->place.version == 0)
		return c->place;
	says_any = compare(t, c->placed, c->sequence) == 0;
	for (int i = 0; c->live && !says_any && i < t->shape->ncolumns; i++)
		says_any = t->shape->ignores_null[i] && !c->never[i] && compare(t, c->since[i], c->placed) == 0;
	return says_any ? c->place : (Scd2Place){0};
}

static bool
same_place(const Scd2Place *a, const Scd2Place *b)
{
	return a->version == b->version && a->ordinal == b->ordinal;
}

/* What is remembered of the key; of one that a mark deleted, nothing. */
static void
remember_current(Scd2Timeline *t)
{
	const Scd2Current *c = &t->current;
	Scd2Memory	now = {.sequence = c->sequence, .kind = c->live ? SCD2_REMEMBER_START : SCD2_REMEMBER_DELETE, .since = c->since, .never = c->never};

	if (!c->live && c->marked)
	{
		if (c->memory != NULL)
			t->use.remember(t->use.arg, c->memory, NULL);
		return;
	}
	if (t->remembers_places)
		now.place = place_to_remember(t);
	if (c->memory == NULL || (c->row != NULL) != c->live || compare(t, c->sequence, c->memory->sequence) != 0 ||
		!same_place(&now.place, &c->memory->place) || (c->live && !same_since(t, c)))
		t->use.remember(t->use.arg, c->memory, &now);
}

/*
 * The key has no more events: what follows for its row.
 */
void
scd2_partial_end(Scd2Timeline *t)
{
	Scd2Current *c = &t->current;
	Scd2Change	change = {.row = c->row, .open = true, .image = &c->image};

	if (!t->has_new)
		return;
	/* Truncates of before that the key did not meet when it was not there. */
	for (int i = t->nmarks - 1; i >= 0 && compare(t, t->marks[i].sequence, t->new.sequence) >= 0; i--)
		if (!t->marks[i].snapshot)
			take_delete(t, &(Scd2Event){.sequence = t->marks[i].sequence, .kind = SCD2_DELETE, .implied = true});
	remember_current(t);
	if (c->row == NULL && !c->live)
		return;
	change.kind = c->row == NULL ? SCD2_ROW_INSERT : c->live ? SCD2_ROW_REWRITE : SCD2_ROW_DELETE;
	if (change.kind != SCD2_ROW_REWRITE || !scd2_image_equal(t->shape, c->row->image, c->image.values, c->image.isnull))
		t->use.change(t->use.arg, &change);
}
