/*
 * timeline.c
 *		From events and existing rows of one key to the fewest row changes.
 *
 * The result is a function of the set of events (SEMANTICS.md gives the definition; this is how it
 * is kept up). Per key:
 *
 *   old events, read from rows and memory ─┐
 *   truncates and complete snapshots ──────┼─ merged by sequence ─ the one that counts ─ runs ─ compared with the rows ─ changes
 *   new events, given in ascending order ──┘                       at each sequence              and the memory
 *
 * Old events. A row [start, end) is an upsert at its start, with the upserts hidden in its run,
 * which are remembered, and a delete at its end, unless another row begins there or a close is
 * remembered. What is remembered besides: deletes and closes that end no row. A hidden upsert is
 * remembered with the untracked values of the event before it, so that the values of the last event
 * of a run are those of the row, and no value is kept twice.
 *
 * Marks are events of every key that are remembered once per target. A truncate is a delete. A
 * complete snapshot says that the key was at its sequence as it was just before: while nothing is
 * changed before it, this adds nothing; when a late event comes in before it, it becomes an event
 * of the key.
 *
 * Runs. Of the events at one sequence the greatest counts. A longest block of upserts that are
 * equal in all tracked columns is one row: start of its first, values of its last event, end at the
 * next event of whatever kind. Each finished run is compared with the existing row that has its
 * start; an existing row whose start begins no run is deleted.
 *
 * Only the neighbourhood of the new events is read: the rows given begin with the last below the
 * first new event (it shows how the key was), the memory with the first that is not below it, and
 * reading stops with the first old event above the last one, or short of it where a row ends: from
 * there on everything is as it was. All is streamed, so a hot key with a hundred thousand versions
 * needs no more memory than one with two.
 *
 * Type 1 is the same without intervals: the event that counts last is the row; of each key its
 * sequence and kind is remembered.
 *
 * Where NULL says nothing in some columns, an event's image is what it sent, and it is resolved
 * against the state before it, once for the key as it was, once as it will be. So a late event
 * changes what comes after it until every column was sent, and reading stops when both are the
 * same. Rows show resolved images: what was sent is remembered of each upsert that is not the only
 * one of its run or does not send all, and the last below the new events is given too.
 *
 * A flow whose events arrive in order by construction remembers nothing and is given the last row alone.
 *
 * Nothing here knows relations, SPI or transactions.
 */
#include "postgres.h"

#include "utils/datum.h"

#include "flow/partial.h"
#include "flow/timeline.h"

static int
compare(Scd2Timeline *t, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(&t->compare, t->collation, a, b));
}

/* Sequences can be equal and not the same: 1.0 and 1.00. */
static int
compare_sequence_images(Scd2Timeline *t, Datum a, Datum b)
{
	return scd2_datum_image_compare(a, b, t->sequence_typbyval, t->sequence_typlen);
}

/*
 * The later place is greater, none the least.
 */
int
scd2_place_compare(const Scd2Place *a, const Scd2Place *b)
{
	if (a->version != b->version)
		return a->version > b->version ? 1 : -1;
	return a->ordinal == b->ordinal ? 0 : a->ordinal > b->ordinal ? 1 : -1;
}

/*
 * Which of two events at one sequence counts? (> 0: a.) Closes yield; then by place, an event
 * without one before all with; then a delete beats an upsert; then by row image; last by the image
 * of the sequence, which rows show as their start or end.
 */
static int
compare_at_sequence(Scd2Timeline *t, const Scd2Event *a, const Scd2Event *b)
{
	int			order;

	if ((a->kind == SCD2_CLOSE) != (b->kind == SCD2_CLOSE))
		return a->kind != SCD2_CLOSE ? 1 : -1;
	order = scd2_place_compare(&a->place, &b->place);
	if (order != 0)
		return order;
	if (a->kind != b->kind)
		return (int) a->kind - (int) b->kind;
	if (a->kind == SCD2_UPSERT)
		order = scd2_image_compare(t->shape, a->image, b->image);
	return order != 0 ? order : compare_sequence_images(t, a->sequence, b->sequence);
}

static bool
same_event(Scd2Timeline *t, const Scd2Event *a, const Scd2Event *b)
{
	return a->kind == b->kind &&
		(a->kind != SCD2_UPSERT ||
		 scd2_image_equal(t->shape, a->image, b->image->values, b->image->isnull));
}

/* Two upserts that nothing but their images tells apart. */
static bool
is_conflict(const Scd2Event *a, const Scd2Event *b)
{
	return a->kind == SCD2_UPSERT && b->kind == SCD2_UPSERT && a->place.version == 0 && b->place.version == 0;
}

void
scd2_timeline_begin(Scd2Timeline *t)
{
	t->started = t->has_new = t->in_run = t->old_done = t->rows_done = t->memory_done = false;
	t->touched = t->scd_type == 1;
	t->n_new = 0;
	t->next_row = NULL;
	t->next_memory = NULL;
	t->inside = t->old_cover = t->run_row = NULL;
	t->old.valid = false;
	t->old_image = t->run_image = NULL;
	t->first.pending = false;
	t->as_was = t->first_old = true;
	t->ending = false;
	t->next_mark = -1;
}

/* ---- marks ---- */

/* The first mark that is not below a sequence. */
static int
first_mark(Scd2Timeline *t, Datum from)
{
	int			low = 0;
	int			high = t->nmarks;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (compare(t, t->marks[middle].sequence, from) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Do the marks at a sequence say no more than a close? Then a delete there has to be remembered. */
static bool
only_closed(Scd2Timeline *t, Datum sequence)
{
	bool		closed = false;

	if (t->nmarks == 0)
		return false;
	for (int i = first_mark(t, sequence); i < t->nmarks && compare(t, t->marks[i].sequence, sequence) == 0; i++)
	{
		if (!t->marks[i].yields && (t->marks[i].snapshot || t->marks[i].kind != SCD2_CLOSE))
			return false;
		closed = true;
	}
	return closed;
}

/* ---- changes ---- */

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

	t->use.change(t->use.arg, &change);
}

/* The usual close leaves the row's own image in place: nothing to compare. */
static bool
image_kept(Scd2Timeline *t, const Scd2Row *row)
{
	return t->run_image == row->image ||
		scd2_image_equal(t->shape, t->run_image, row->image->values, row->image->isnull);
}

/* What is to be remembered of an event, against what is. */
static void
remember(Scd2Timeline *t, const Scd2Memory *was, const Scd2Memory *now)
{
	if (!t->touched || (was == NULL && now == NULL))
		return;
	if (was != NULL && now != NULL && was->kind == now->kind &&
		compare_sequence_images(t, was->sequence, now->sequence) == 0 &&
		was->place.version == now->place.version && was->place.ordinal == now->place.ordinal &&
		(now->kind != SCD2_REMEMBER_HIDDEN || scd2_image_equal_untracked(t->shape, was->before, now->before)) &&
		(now->sent == NULL || scd2_image_equal(t->shape, was->sent, now->sent->values, now->sent->isnull)))
		return;
	t->use.remember(t->use.arg, was, now);
}

static Scd2Memory
memory_of_sent(Scd2Timeline *t, Datum sequence, Scd2Place place, Scd2Image *sent)
{
	Scd2Memory	memory = {.sequence = sequence, .sent = sent};

	if (t->remembers_places)
		memory.place = place;
	memory.kind = sent->whole && !scd2_sends_all(t->shape, sent) ? SCD2_REMEMBER_WHOLE : SCD2_REMEMBER_SENT;
	return memory;
}

/* It is known now whether the first event of the run stays the only one. */
static void
remember_first(Scd2Timeline *t, bool goes_on)
{
	Scd2First  *first = &t->first;
	Scd2Memory	now;
	bool		shown;			/* by the row */

	if (!first->pending)
		return;
	first->pending = false;
	now = memory_of_sent(t, first->sequence, first->place, first->sent);
	shown = !goes_on && now.place.version == 0 && (first->forgotten || scd2_sends_all(t->shape, first->sent));
	if (t->remembers && !first->unread)
		remember(t, first->memory, shown ? NULL : &now);
	if (first->sent != t->run_image)
		scd2_image_drop(first->sent);
}

/* The run is complete: what differs from the row that has its start? */
static void
finish_run(Scd2Timeline *t, Datum end, bool open)
{
	const Scd2Row *row = t->run_row;

	Assert(t->in_run);
	remember_first(t, false);
	if (row != NULL && compare_sequence_images(t, t->run_start, row->start) != 0)
	{
		emit(t, SCD2_ROW_DELETE, row, (Datum) 0, true);
		row = NULL;
	}
	if (row == NULL)
		emit(t, SCD2_ROW_INSERT, NULL, end, open);
	else if (!image_kept(t, row) || (open && !row->open))
		emit(t, SCD2_ROW_REWRITE, row, end, open);
	else if (!open && (row->open || compare_sequence_images(t, end, row->end) != 0))
		emit(t, SCD2_ROW_CLOSE, row, end, open);
	scd2_image_drop(t->run_image);
	t->in_run = false;
	t->run_image = NULL;
	t->run_row = NULL;
}

/* A further upsert of the run at hand, "image" once resolved. */
static void
settle_hidden(Scd2Timeline *t, const Scd2Event *event, Scd2Image *image, const Scd2Memory *was, bool implied)
{
	Scd2Memory	now = {.sequence = event->sequence, .place = event->place, .kind = SCD2_REMEMBER_HIDDEN, .before = t->run_image};
	bool		remembered = !implied || !scd2_image_equal(t->shape, t->run_image, image->values, image->isnull);

	if (!remembered)			/* a mark says so, and nothing else does */
	{
		if (t->remembers)
			remember(t, was, NULL);
		return;
	}
	if (t->shape->ignores_null != NULL)
	{
		remember_first(t, true);
		now = memory_of_sent(t, event->sequence, event->place, event->image);
	}
	if (t->remembers)
		remember(t, was, &now);
	scd2_image_drop(t->run_image);
	if (image != event->image)
		scd2_image_drop(event->image);
	t->run_image = image;
}

/* An upsert begins a run: the row that has its start is "row". */
static void
begin_run(Scd2Timeline *t, const Scd2Event *event, Scd2Image *image, const Scd2OldEvent *old, const Scd2Row *row)
{
	t->in_run = true;
	t->run_start = event->sequence;
	t->run_image = image;
	t->run_row = row;
	if (t->shape->ignores_null == NULL)
		return;
	t->first = (Scd2First){.pending = true, .sequence = event->sequence, .place = event->place, .sent = event->image};
	if (old != NULL)
	{
		t->first.memory = old->memory;
		t->first.unread = old->unread;
		t->first.forgotten = old->forgotten;
	}
}

/* The key as it is after an upsert. "old": nothing else is there at its sequence. */
static Scd2Image *
resolved_image(Scd2Timeline *t, const Scd2Event *event, const Scd2OldEvent *old)
{
	if (t->shape->ignores_null == NULL || event->kind != SCD2_UPSERT)
		return event->image;
	if (t->as_was && old != NULL && event->image == old->event.image)
		return old->state;
	return scd2_image_resolve(t->shape, event->image, t->in_run ? t->run_image : NULL);
}

/*
 * The next event that counts, "old" if it was there, or NULL: that is what may have to be
 * forgotten. "implied": a mark says the same, so it need not be remembered.
 */
static void
settle(Scd2Timeline *t, const Scd2Event *event, const Scd2OldEvent *old, bool implied)
{
	Scd2Memory	now = {.sequence = event->sequence, .place = event->place};
	bool		remembered = false;
	const Scd2Row *starts = old ? old->starts : NULL;
	Scd2Image  *image = resolved_image(t, event, old);

	if (event->kind == SCD2_UPSERT && t->in_run && scd2_image_equal_tracked(t->shape, t->run_image, image))
		settle_hidden(t, event, image, old ? old->memory : NULL, implied);
	else
	{
		bool		ends_row = t->in_run;

		if (t->in_run)
			finish_run(t, event->sequence, false);
		if (event->kind == SCD2_UPSERT)
		{
			begin_run(t, event, image, old, starts);
			starts = NULL;
			now.kind = SCD2_REMEMBER_START;
			remembered = t->remembers_places && event->place.version != 0;
		}
		else
		{
			now.kind = event->kind == SCD2_CLOSE ? SCD2_REMEMBER_CLOSE : SCD2_REMEMBER_DELETE;
			remembered = !implied &&
				(event->kind == SCD2_CLOSE || !ends_row || only_closed(t, event->sequence) ||
				 (t->remembers_places && event->place.version != 0));
		}
		/* (What was sent by the first of a run is remembered when the run goes on or ends.) */
		if (t->remembers && (event->kind != SCD2_UPSERT || t->shape->ignores_null == NULL))
			remember(t, old ? old->memory : NULL, remembered ? &now : NULL);
	}
	if (starts != NULL)
		emit(t, SCD2_ROW_DELETE, starts, (Datum) 0, true);
}

/* ---- what is there ---- */

static Scd2Row *
peek_row(Scd2Timeline *t)
{
	if (t->next_row == NULL && !t->rows_done)
	{
		t->next_row = t->use.next_row(t->use.arg);
		t->rows_done = t->next_row == NULL;
	}
	return t->next_row;
}

static Scd2Memory *
peek_memory(Scd2Timeline *t)
{
	if (t->next_memory == NULL && !t->memory_done)
	{
		if (t->use.next_memory != NULL)
			t->next_memory = t->use.next_memory(t->use.arg);
		t->memory_done = t->next_memory == NULL;
	}
	return t->next_memory;
}

static Scd2Memory *
take_memory_at(Scd2Timeline *t, Datum sequence)
{
	Scd2Memory *memory = peek_memory(t);

	if (memory == NULL || compare(t, memory->sequence, sequence) != 0)
		return NULL;
	t->next_memory = NULL;
	return memory;
}

static bool
is_upsert(const Scd2Memory *memory)
{
	return memory->kind != SCD2_REMEMBER_DELETE && memory->kind != SCD2_REMEMBER_CLOSE;
}

static bool
is_inside(Scd2Timeline *t, const Scd2Row *row, const Scd2Memory *memory)
{
	return memory != NULL && (row->open || compare(t, memory->sequence, row->end) < 0);
}

/*
 * An upsert of the row, where NULL says nothing. What it sent is remembered, unless that is what
 * the row shows.
 */
static void
read_sent(Scd2Timeline *t, const Scd2Row *row, Datum sequence, const Scd2Memory *memory)
{
	bool		goes_on = is_inside(t, row, peek_memory(t));
	Scd2Image  *before = t->old_image;

	row->image->whole = true;
	t->old.valid = true;
	t->old.event.sequence = sequence;
	t->old.event.kind = SCD2_UPSERT;
	t->old.event.image = memory != NULL ? memory->sent : row->image;
	t->old.cover = row;
	t->old.memory = memory;
	/* Else it would be remembered. */
	t->old.unread = memory == NULL && goes_on;
	t->old.forgotten = memory == NULL && !scd2_sends_all(t->shape, row->image);
	t->old.state = row->image;
	if (!goes_on || memory == NULL)
		return;
	if (t->first_old && t->use.image_before != NULL)
		before = t->use.image_before(t->use.arg, row);
	t->old.state = scd2_image_combine(t->shape, row->image, scd2_image_resolve(t->shape, memory->sent, before));
	t->old.state->whole = true;
}

/*
 * An upsert of the row: its values are the row's, the untracked ones those that the next hidden
 * event remembers (complete_old()).
 */
static void
read_upsert(Scd2Timeline *t, const Scd2Row *row, Datum sequence, const Scd2Memory *memory)
{
	if (t->shape->ignores_null != NULL)
	{
		read_sent(t, row, sequence, memory);
		return;
	}
	t->old.valid = true;
	t->old.event.sequence = sequence;
	t->old.event.kind = SCD2_UPSERT;
	t->old.event.image = row->image;
	t->old.cover = row;
	t->old.memory = memory;
}

/*
 * Takes the untracked values of the next old event from the memory that has them: one that nobody
 * else may need. (Nor does the first event above the last new one: see scd2_timeline_end().)
 */
static void
complete_old(Scd2Timeline *t)
{
	const Scd2Row *row = t->old.cover;
	Scd2Memory *next;

	if (t->old.event.kind != SCD2_UPSERT || t->shape->ignores_null != NULL || (t->ending && t->nmarks == 0))
		return;
	next = peek_memory(t);
	if (is_inside(t, row, next) && next->before != NULL)
		t->old.event.image = scd2_image_combine(t->shape, row->image, next->before);
}

/* A delete or close; at the end of a row nothing may be remembered of it. */
static void
read_end(Scd2Timeline *t, Datum sequence, const Scd2Memory *memory)
{
	bool		close = memory != NULL ? memory->kind == SCD2_REMEMBER_CLOSE : only_closed(t, sequence);

	t->old.valid = true;
	t->old.event.sequence = sequence;
	t->old.event.kind = close ? SCD2_CLOSE : SCD2_DELETE;
	t->old.memory = memory;
}

/* Inside a row: the next hidden upsert, or its end. False: the row ends where the next begins, or never. */
static bool
read_inside(Scd2Timeline *t)
{
	const Scd2Row *row = t->inside;
	Scd2Memory *memory = peek_memory(t);
	Scd2Row    *next;

	if (is_inside(t, row, memory))
	{
		t->next_memory = NULL;
		read_upsert(t, row, memory->sequence, memory);
		return true;
	}
	t->inside = NULL;
	if (row->open)
		return false;
	next = peek_row(t);
	if (next != NULL && compare(t, next->start, row->end) == 0)
		return false;
	read_end(t, row->end, take_memory_at(t, row->end));
	return true;
}

/* Reads the next old event into t->old, if it is not there yet. False: there is none. */
static bool
peek_old(Scd2Timeline *t)
{
	Scd2Row    *row;
	Scd2Memory *memory;

	if (t->old.valid || t->old_done)
		return t->old.valid;
	memset(&t->old, 0, sizeof(t->old));
	if (t->inside == NULL || !read_inside(t))
	{
		row = peek_row(t);
		memory = peek_memory(t);
		/* An upsert of a row before the ones given. */
		while (memory != NULL && row != NULL && is_upsert(memory) && compare(t, memory->sequence, row->start) < 0)
		{
			t->next_memory = NULL;
			memory = peek_memory(t);
		}
		if (memory != NULL && (row == NULL || compare(t, memory->sequence, row->start) < 0))
		{
			t->next_memory = NULL;
			read_end(t, memory->sequence, memory);
		}
		else if (row != NULL)
		{
			t->next_row = NULL;
			t->inside = row;
			read_upsert(t, row, row->start, take_memory_at(t, row->start));
			t->old.starts = row;
		}
	}
	t->first_old = false;
	if (t->old.valid && t->old.memory != NULL)
		t->old.event.place = t->old.memory->place;
	t->old_done = !t->old.valid;
	return t->old.valid;
}

/*
 * The sequence of the next old event; false: there is none. Where a row ends is known before it is
 * known what comes there, which may take reading the next row.
 */
static bool
next_old(Scd2Timeline *t, Datum *sequence)
{
	if (!t->old.valid && t->inside != NULL && !t->inside->open)
	{
		Scd2Memory *memory = peek_memory(t);

		*sequence = is_inside(t, t->inside, memory) ? memory->sequence : t->inside->end;
		return true;
	}
	if (!peek_old(t))
		return false;
	*sequence = t->old.event.sequence;
	return true;
}

/* The old event is passed: this is how the key was after it. */
static void
pass_old(Scd2Timeline *t)
{
	t->old_image = t->old.event.kind != SCD2_UPSERT ? NULL : t->shape->ignores_null != NULL ? t->old.state : t->old.event.image;
	t->old_cover = t->old.cover;
	t->old.valid = false;
}

/* The next mark; NULL: none. At first, the first that is not below "from". */
static const Scd2Mark *
peek_mark(Scd2Timeline *t, Datum from)
{
	if (t->next_mark < 0)
		t->next_mark = first_mark(t, from);
	return t->next_mark < t->nmarks ? &t->marks[t->next_mark] : NULL;
}

/* What a mark says of the key; false: nothing. */
static bool
implied_event(Scd2Timeline *t, const Scd2Mark *mark, Scd2Event *event)
{
	memset(event, 0, sizeof(*event));
	event->sequence = mark->sequence;
	event->kind = mark->kind;
	if (!mark->snapshot)
		return true;
	if (t->use.in_scope != NULL && !t->use.in_scope(t->use.arg, mark))
		return false;
	event->kind = t->old_image != NULL ? SCD2_UPSERT : mark->yields ? SCD2_CLOSE : SCD2_DELETE;
	event->image = t->old_image;
	return true;
}

/* Are upserts at one sequence one event? Not where their places order them: such are whole. */
static bool
unites(Scd2Timeline *t, const Scd2Event *a, const Scd2Event *b)
{
	return t->shape->ignores_null != NULL && a->kind == SCD2_UPSERT && b->kind == SCD2_UPSERT &&
		a->place.version == 0 && b->place.version == 0;
}

/* Two upserts that are one: into the first. False: the second has no values to add. */
static bool
unite(Scd2Timeline *t, Scd2Event *into, const Scd2Event *event, bool *conflict)
{
	Scd2Image  *merged = scd2_image_merge(t->shape, into->image, event->image, conflict);
	bool		adds = merged != into->image;

	into->image = merged;
	if (compare_sequence_images(t, event->sequence, into->sequence) > 0)
		into->sequence = event->sequence;
	return adds;
}

/* What counts of two events at one sequence, into the first. */
static void
take_greater(Scd2Timeline *t, Scd2Event *winner, const Scd2Event *event)
{
	bool		conflict;

	if (unites(t, winner, event))
		(void) unite(t, winner, event, &conflict);
	else if (compare_at_sequence(t, event, winner) > 0)
		*winner = *event;
}

/* A new event meets one that was there at its sequence. */
static void
count_against_old(Scd2Timeline *t, const Scd2Event *old, const Scd2Event *new)
{
	bool		conflict;

	if (unites(t, old, new))
	{
		bool		adds = scd2_image_merge(t->shape, old->image, new->image, &conflict) != old->image;

		t->counts.conflicts += conflict;
		if (adds || conflict)
			return;
		t->counts.duplicates++;
		t->n_new--;
	}
	else if (same_event(t, old, new))
	{
		t->counts.duplicates++;
		t->n_new--;
	}
	else if (is_conflict(old, new))
		t->counts.conflicts++;
}

/* Does an event say all that the one that counts at its sequence says? */
static bool
says_all(Scd2Timeline *t, const Scd2Event *event, const Scd2Event *winner)
{
	bool		conflict;

	if (unites(t, event, winner))
		return scd2_image_merge(t->shape, event->image, winner->image, &conflict) == event->image &&
			compare_sequence_images(t, event->sequence, winner->sequence) >= 0;
	return compare_at_sequence(t, event, winner) >= 0;
}

/*
 * What a mark implies meets the event that counts so far (NULL: none). True: that need not be
 * remembered, the mark says it. What a snapshot said at the sequence of an old event is in that one,
 * unless it has lost; then the image of its sequence does not count either. (Who takes a snapshot at
 * 1.00 and truncates at 1.0 may see either as the end of a row.)
 */
static bool
meet_mark(Scd2Timeline *t, const Scd2Mark *mark, Scd2Event *implied, Scd2Event *winner, bool at_old)
{
	bool		says_it;

	if (winner == NULL)
		return true;
	says_it = says_all(t, implied, winner);
	if (mark->snapshot && at_old)
	{
		says_it &= compare_sequence_images(t, implied->sequence, winner->sequence) == 0;
		implied->sequence = winner->sequence;
	}
	take_greater(t, winner, implied);
	return says_it;
}

/*
 * All that is known at "sequence", which is that of the next old event, the next mark, or the new
 * events: the greatest counts. False: nothing after all (a snapshot that does not speak of the
 * key).
 */
static bool
settle_sequence(Scd2Timeline *t, Datum sequence, const Scd2Event *new)
{
	Scd2Event	winner;
	Scd2Event	implied;
	Scd2OldEvent old = {0};
	bool		any = false;
	bool		is_implied = false;
	const Scd2Mark *mark;
	const Scd2Image *before = t->old_image;
	Datum		next;

	if (next_old(t, &next) && compare(t, next, sequence) == 0 && peek_old(t))
	{
		complete_old(t);
		old = t->old;
		winner = old.event;
		any = true;
		pass_old(t);
	}
	if (new != NULL)
	{
		if (old.valid && t->n_new > 0)
			count_against_old(t, &old.event, new);
		if (any)
			take_greater(t, &winner, new);
		else
			winner = *new;
		any = true;
	}
	while ((mark = peek_mark(t, sequence)) != NULL && compare(t, mark->sequence, sequence) == 0)
	{
		t->next_mark++;
		if (mark->yields && any)
		{
			if (winner.kind == SCD2_UPSERT && t->shape->ignores_null != NULL)
				winner.image = scd2_image_resolve(t->shape, winner.image, before);
		}
		else if (implied_event(t, mark, &implied))
		{
			is_implied |= meet_mark(t, mark, &implied, any ? &winner : NULL, old.valid);
			if (!any)
				winner = implied;
			any = true;
		}
	}
	if (!any)
		return false;
	settle(t, &winner, old.valid ? &old : NULL, is_implied);
	if (t->shape->ignores_null != NULL)
		t->as_was = t->in_run ? t->old_image != NULL && scd2_image_equal(t->shape, t->run_image, t->old_image->values, t->old_image->isnull) : t->old_image == NULL;
	return true;
}

/* The sequence of the next old event or mark; false: there is neither. */
static bool
next_known(Scd2Timeline *t, Datum from, Datum *sequence)
{
	const Scd2Mark *mark = peek_mark(t, from);

	if (next_old(t, sequence))
	{
		if (mark != NULL && compare(t, mark->sequence, *sequence) < 0)
			*sequence = mark->sequence;
		return true;
	}
	if (mark == NULL)
		return false;
	*sequence = mark->sequence;
	return true;
}

/* The new events at one sequence are all there. */
static void
settle_new(Scd2Timeline *t)
{
	Datum		sequence;

	if (!t->has_new)
		return;
	t->has_new = false;
	while (next_known(t, t->new.sequence, &sequence) && compare(t, sequence, t->new.sequence) < 0)
		(void) settle_sequence(t, sequence, NULL);
	t->touched = true;
	(void) settle_sequence(t, t->new.sequence, &t->new);
	if (next_old(t, &sequence))
		t->counts.out_of_order += t->n_new;
	t->n_new = 0;
}

/* ---- type 1 ---- */

/* The greatest event wins; what is remembered of the key is one more. */
static void
current_event(Scd2Timeline *t, const Scd2Event *event)
{
	if (!t->has_new ||
		compare(t, t->new.sequence, event->sequence) < 0 ||
		(compare(t, t->new.sequence, event->sequence) == 0 && compare_at_sequence(t, event, &t->new) > 0))
		t->new = *event;
	t->has_new = true;
}

static void
write_current(Scd2Timeline *t, const Scd2Row *row, const Scd2Event *event)
{
	t->run_image = event->image;
	if (event->kind != SCD2_UPSERT)
	{
		if (row != NULL)
			emit(t, SCD2_ROW_DELETE, row, (Datum) 0, true);
	}
	else if (row == NULL)
		emit(t, SCD2_ROW_INSERT, NULL, (Datum) 0, true);
	else if (!image_kept(t, row))
		emit(t, SCD2_ROW_REWRITE, row, (Datum) 0, true);
	t->run_image = NULL;
}

/* How a new event stands to what is remembered of the key. */
static void
count_against_memory(Scd2Timeline *t, const Scd2Event *event)
{
	Scd2Row    *row = peek_row(t);
	Scd2Memory *memory = peek_memory(t);
	int			order;

	if (memory == NULL)
		return;
	order = compare(t, event->sequence, memory->sequence);
	if (order < 0)
		t->counts.out_of_order++;
	else if (order == 0 && (event->kind == SCD2_UPSERT) == (row != NULL))
	{
		if (row == NULL || scd2_image_equal(t->shape, event->image, row->image->values, row->image->isnull))
			t->counts.duplicates++;
		else if (event->place.version == 0 && memory->place.version == 0)
			t->counts.conflicts++;
	}
}

static void
count_current(Scd2Timeline *t, const Scd2Event *event)
{
	if (!t->has_new || compare(t, event->sequence, t->new.sequence) != 0)
		count_against_memory(t, event);
	else if (same_event(t, event, &t->new))
		t->counts.duplicates++;
	else if (is_conflict(event, &t->new))
		t->counts.conflicts++;
}

/* The key as it is, as an event: from its memory. */
static Scd2Event
remembered_event(const Scd2Memory *memory, const Scd2Row *row)
{
	Scd2Event	event = {.sequence = memory->sequence, .place = memory->place};

	event.kind = row != NULL ? SCD2_UPSERT :
		memory->kind == SCD2_REMEMBER_CLOSE ? SCD2_CLOSE : SCD2_DELETE;
	event.image = row != NULL ? row->image : NULL;
	return event;
}

static void
remember_current(Scd2Timeline *t, const Scd2Memory *was)
{
	Scd2Memory	now = {.sequence = t->new.sequence};

	if (t->remembers_places)
		now.place = t->new.place;
	now.kind = t->new.kind == SCD2_UPSERT ? SCD2_REMEMBER_START :
		t->new.kind == SCD2_CLOSE ? SCD2_REMEMBER_CLOSE : SCD2_REMEMBER_DELETE;
	if (was == NULL || was->kind != now.kind || compare(t, was->sequence, now.sequence) != 0 ||
		was->place.version != now.place.version || was->place.ordinal != now.place.ordinal)
		t->use.remember(t->use.arg, was, &now);
}

/*
 * The greatest of what the marks say from the new event's sequence on: into t->new if that is
 * greater. True: a mark said it.
 */
static bool
pass_marks(Scd2Timeline *t)
{
	bool		marked = false;
	Scd2Event	known;

	for (int i = t->nmarks - 1; i >= 0 && compare(t, t->marks[i].sequence, t->new.sequence) >= 0; i--)
	{
		if (!implied_event(t, &t->marks[i], &known) ||
			(compare(t, known.sequence, t->new.sequence) == 0 &&
			 (t->marks[i].yields || compare_at_sequence(t, &known, &t->new) < 0)))
			continue;
		t->new = known;
		marked = true;
	}
	return marked;
}

static void
end_current(Scd2Timeline *t)
{
	Scd2Row    *row = peek_row(t);
	Scd2Memory *memory = peek_memory(t);
	bool		marked;
	Scd2Event	known;

	if (!t->has_new)
		return;
	t->old_image = row ? row->image : NULL;
	marked = pass_marks(t);
	if (memory != NULL)
	{
		known = remembered_event(memory, row);
		marked &= compare(t, known.sequence, t->new.sequence) < 0;
		current_event(t, &known);
	}
	write_current(t, row, &t->new);
	if (!t->remembers)
		return;
	/* Of a key that is as a mark says, nothing is remembered unless it is there. */
	if (!marked)
		remember_current(t, memory);
	else if (row == NULL || t->new.kind != SCD2_UPSERT)
		remember(t, memory, NULL);
}

/* ---- */

/* Another new upsert at the same sequence, where they are one. */
static void
unite_new(Scd2Timeline *t, const Scd2Event *event)
{
	bool		conflict;
	bool		adds = unite(t, &t->new, event, &conflict);

	if (!event->implied && t->n_new > 0 && !conflict && !adds)
		t->counts.duplicates++;
	else if (!event->implied)
	{
		t->counts.conflicts += conflict;
		t->n_new++;
	}
}

/*
 * Next event of the key, in ascending sequence (at equal sequence in any order). Its image becomes
 * the timeline's.
 */
void
scd2_timeline_event(Scd2Timeline *t, const Scd2Event *event)
{
	int			order;

	if (t->scd_type == 1 && t->shape->ignores_null != NULL)
	{
		scd2_partial_event(t, event);
		return;
	}
	t->counts.events += !event->implied;
	if (t->scd_type == 1)
	{
		if (!event->implied)
			count_current(t, event);
		current_event(t, event);
		return;
	}
	if (t->has_new && compare(t, t->new.sequence, event->sequence) == 0)
	{
		if (unites(t, &t->new, event))
		{
			unite_new(t, event);
			return;
		}
		order = compare_at_sequence(t, event, &t->new);
		if (t->n_new > 0 && !event->implied && same_event(t, event, &t->new))
			t->counts.duplicates++;
		else if (!event->implied)
		{
			t->counts.conflicts += is_conflict(event, &t->new);
			t->n_new++;
		}
		if (order > 0)
			t->new = *event;
		return;
	}
	settle_new(t);
	t->has_new = true;
	t->n_new = !event->implied;
	t->new = *event;
}

/* The run at hand goes on as the row does that the last old event is part of. */
static void
finish_like_old(Scd2Timeline *t)
{
	const Scd2Row *rest = t->old_cover;

	if (t->first.pending)
		remember_first(t, t->old.valid ? t->old.cover == rest && t->old.starts == NULL : is_inside(t, rest, peek_memory(t)));
	scd2_image_drop(t->run_image);
	t->run_image = rest->image;
	finish_run(t, rest->end, rest->open);
}

/*
 * Does the run at hand reach the end of the row that is being read, whose values it has? Then what is
 * at that end, or begins there, is of no concern.
 */
static bool
ends_like_row(Scd2Timeline *t)
{
	const Scd2Row *row = t->inside;

	return t->in_run && !t->old.valid && row != NULL && !row->open &&
		t->shape->ignores_null == NULL && t->nmarks == 0 &&
		!is_inside(t, row, peek_memory(t)) &&
		scd2_image_equal_tracked(t->shape, t->run_image, row->image);
}

/*
 * The key has no more new events. The first thing known above the last of them is settled too; from
 * there on all is as it was.
 */
void
scd2_timeline_end(Scd2Timeline *t)
{
	Datum		sequence;
	bool		known_above = false;

	if (t->scd_type == 1)
	{
		if (t->shape->ignores_null != NULL)
			scd2_partial_end(t);
		else
			end_current(t);
		return;
	}
	settle_new(t);
	if (ends_like_row(t))
	{
		finish_run(t, t->inside->end, false);
		return;
	}
	t->ending = true;			/* what is above goes on as its row does */
	while (!known_above && next_known(t, (Datum) 0, &sequence))
		known_above = settle_sequence(t, sequence, NULL) && (t->shape->ignores_null == NULL || t->as_was);
	if (!t->in_run)
		return;
	if (known_above)
		finish_like_old(t);
	else
		finish_run(t, (Datum) 0, true);
}
