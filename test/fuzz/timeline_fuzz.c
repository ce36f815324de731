/*
 * timeline_fuzz.c
 *		The timeline engine alone, against the definition.
 *
 * Random event sets of one key are given to the engine in random order, batch by batch, as a target
 * and its memory would be: rows and memory are arrays here. After every batch they are compared
 * with what the definition (SEMANTICS.md) says of all events so far, by brute force. Then it is
 * checked that memory holds no more than it must, that a batch that is given again changes nothing,
 * and that rows which stay as they are were not written.
 *
 * Events can have a place in a feed, which orders those at one sequence; where NULL says nothing,
 * such are whole.
 *
 * Some sets have a horizon: events below it are not given, and what is remembered below it is
 * dropped, as the worker does; that must not show. Then older events may come from a flow that
 * joins, behind an implied snapshot at the horizon: from there on, nothing may differ.
 *
 * scd2_timeline_fuzz(seed, sets): the number of sets that were right; the first that is wrong is an
 * error that shows it.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/memutils.h"

#include "flow/timeline.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(scd2_timeline_fuzz);

#define MAX_EVENTS	60
#define VALUES		3
#define COLUMNS		(1 + VALUES)	/* the key first */

/* Sequences are 64-bit integers of which the last bit does not order: equal ones are of two images. */
#define SEQUENCE(seq, image)	Int64GetDatum((int64) (seq) * 2 + (image))
#define SEQ(datum)				((int) (DatumGetInt64(datum) / 2))
#define IMAGE(datum)			((int) (DatumGetInt64(datum) % 2))

typedef struct Given
{
	int			seq;
	int			image;			/* of the sequence */
	Scd2EventKind kind;
	bool		is_truncate;	/* of every key: also a mark */
	bool		is_horizon;		/* only a mark */
	bool		is_snapshot;	/* the key's part of a complete snapshot: a mark after its batch */
	Scd2Place	place;
	bool		whole;			/* NULL is a value in each column, though the set ignores it */
	int			v[VALUES];		/* 0: NULL */
} Given;

typedef struct Set
{
	pg_prng_state rng;
	bool		places;
	bool		one;			/* type 1 */
	bool		ignores;		/* NULL says nothing in some columns */
	bool		images;			/* equal sequences need not be the same; then no truncate is a close (those are of commit times), */
	bool		truncates;		/* and there are truncates or snapshots: see meet_mark() */
	Scd2Timeline timeline;
	Given		events[MAX_EVENTS];
	int			n;				/* given so far */
	Scd2Row    *rows[3 * MAX_EVENTS];
	int			nrows;
	Scd2Memory *memory[3 * MAX_EVENTS];
	int			nmemory;
	Scd2Mark	marks[3 * MAX_EVENTS];	/* replays add theirs again */
	int			nmarks;
	int			lateness;		/* 0: whatever is late is taken */
	int			horizon;
	int			joined;			/* what is valid from here on must not change; 0: nothing has joined */
	int			changes;		/* in this batch */
	int			row_at;			/* reading */
	int			memory_at;
	int			lowest;
	StringInfoData log;
} Set;

static bool tracked[COLUMNS];
static bool ignores_null[COLUMNS];

static Scd2Shape shape = {
	.ncolumns = COLUMNS,
	.typlen = (int16[]) {4, 4, 4, 4},
	.typbyval = (bool[]) {true, true, true, true},
	.typalign = "iiii",
	.tracked = tracked,
	.is_key = (bool[]) {true, false, false, false}
};

static Scd2Image *
image_of(const int *v, bool whole)
{
	Datum		values[COLUMNS] = {Int32GetDatum(1)};
	bool		isnull[COLUMNS] = {false};
	Scd2Image  *image;

	for (int i = 0; i < VALUES; i++)
	{
		values[i + 1] = Int32GetDatum(v[i]);
		isnull[i + 1] = v[i] == 0;
	}
	image = scd2_image_copy(&shape, values, isnull);
	/* Kept by the arrays. */
	image->borrowed = true;
	image->whole = whole;
	return image;
}

static int
value_of(const Scd2Image *image, int i)
{
	return image->isnull[i + 1] ? 0 : DatumGetInt32(image->values[i + 1]);
}

static Scd2Image *
copy_of(const Scd2Image *image)
{
	int			v[VALUES];

	for (int i = 0; i < VALUES; i++)
		v[i] = value_of(image, i);
	return image_of(v, image->whole);
}

static int
random_int(Set *set, int low, int high)
{
	return low + (int) (pg_prng_uint64(&set->rng) % (uint64) (high - low + 1));
}

/* As the engine compares: without the images. */
static Datum
compare_sequences(PG_FUNCTION_ARGS)
{
	int			a = SEQ(PG_GETARG_DATUM(0));
	int			b = SEQ(PG_GETARG_DATUM(1));

	PG_RETURN_INT32(a < b ? -1 : a > b);
}

/* ---- the target as arrays ---- */

static Scd2Row *
next_row(void *arg)
{
	Set		   *set = arg;

	return set->row_at < set->nrows ? set->rows[set->row_at++] : NULL;
}

static Scd2Memory *
next_memory(void *arg)
{
	Set		   *set = arg;

	return set->memory_at < set->nmemory ? set->memory[set->memory_at++] : NULL;
}

/* Does NULL say nothing in a column whose values rows do not all show? */
static bool
ignores_untracked(void)
{
	for (int i = 1; i < COLUMNS; i++)
		if (ignores_null[i] && !tracked[i])
			return shape.ignores_null != NULL;
	return false;
}

/* Has the row a remembered upsert at or above the lowest new sequence? */
static bool
goes_on_inside(Set *set, const Scd2Row *row, int lowest)
{
	for (int i = 0; i < set->nmemory; i++)
		if (SEQ(set->memory[i]->sequence) >= lowest &&
			(row->open || SEQ(set->memory[i]->sequence) < SEQ(row->end)))
			return true;
	return false;
}

/*
 * From the last row below the lowest new sequence on, and the first memory that is not, as the worker
 * reads them; where NULL says nothing, from the last memory below it on, and where what is in between
 * must be resolved, from the row's start on.
 */
static void
start_reading(Set *set, int lowest)
{
	set->row_at = set->memory_at = 0;
	if (set->one)
		return;
	while (set->row_at + 1 < set->nrows && SEQ(set->rows[set->row_at + 1]->start) < lowest)
		set->row_at++;
	if (ignores_untracked() && set->nrows > 0 && SEQ(set->rows[set->row_at]->start) < lowest &&
		goes_on_inside(set, set->rows[set->row_at], lowest))
	{
		while (set->memory_at < set->nmemory && SEQ(set->memory[set->memory_at]->sequence) < SEQ(set->rows[set->row_at]->start))
			set->memory_at++;
		return;
	}
	if (shape.ignores_null == NULL)
	{
		while (set->memory_at < set->nmemory && SEQ(set->memory[set->memory_at]->sequence) < lowest)
			set->memory_at++;
		return;
	}
	while (set->memory_at + 1 < set->nmemory && SEQ(set->memory[set->memory_at + 1]->sequence) < lowest)
		set->memory_at++;
}

static Scd2Image *
image_before(void *arg, const Scd2Row *row)
{
	Set		   *set = arg;

	for (int i = 0; i < set->nrows; i++)
		if (!set->rows[i]->open && SEQ(set->rows[i]->end) == SEQ(row->start))
			return set->rows[i]->image;
	return NULL;
}

typedef struct Pending
{
	Set		   *set;
	List	   *deleted;		/* rows */
	List	   *inserted;
	List	   *forgotten;
	List	   *remembered;
} Pending;

static Pending pending;

static void
change(void *arg, const Scd2Change *change)
{
	Scd2Row    *row = palloc0(sizeof(Scd2Row));

	pending.set->changes++;
	row->start = change->row ? change->row->start : change->start;
	row->end = change->end;
	row->open = change->open;
	row->image = change->kind == SCD2_ROW_CLOSE ? change->row->image :
		change->kind == SCD2_ROW_DELETE ? NULL : copy_of(change->image);
	if (change->kind != SCD2_ROW_INSERT)
		pending.deleted = lappend(pending.deleted, (void *) change->row);
	if (change->kind != SCD2_ROW_DELETE)
		pending.inserted = lappend(pending.inserted, row);
}

static void
do_remember(void *arg, const Scd2Memory *was, const Scd2Memory *now)
{
	/* What a mark has come to imply is forgotten when it is met. */
	if (now != NULL || pending.set->nmarks == 0)
		pending.set->changes++;
	if (was != NULL)
		pending.forgotten = lappend(pending.forgotten, (void *) was);
	if (now != NULL)
	{
		Scd2Memory *memory = palloc(sizeof(Scd2Memory));

		*memory = *now;
		if (now->kind == SCD2_REMEMBER_HIDDEN)
		{
			memory->before = copy_of(now->before);
			for (int i = 0; i < COLUMNS; i++)
				memory->before->isnull[i] |= tracked[i];
		}
		if (now->sent != NULL)
		{
			memory->sent = copy_of(now->sent);
			memory->sent->whole = now->kind == SCD2_REMEMBER_WHOLE;
		}
		if (now->since != NULL && now->kind == SCD2_REMEMBER_START)
		{
			memory->since = palloc(COLUMNS * sizeof(Datum));
			memory->never = palloc(COLUMNS * sizeof(bool));
			memcpy(memory->since, now->since, COLUMNS * sizeof(Datum));
			memcpy(memory->never, now->never, COLUMNS * sizeof(bool));
		}
		else
			memory->since = NULL;
		pending.remembered = lappend(pending.remembered, memory);
	}
}

static int
by_start(const void *a, const void *b)
{
	int64		x = DatumGetInt64((*(Scd2Row *const *) a)->start);
	int64		y = DatumGetInt64((*(Scd2Row *const *) b)->start);

	return x < y ? -1 : x > y;
}

static int
by_sequence(const void *a, const void *b)
{
	int64		x = DatumGetInt64((*(Scd2Memory *const *) a)->sequence);
	int64		y = DatumGetInt64((*(Scd2Memory *const *) b)->sequence);

	return x < y ? -1 : x > y;
}

static void
write_pending(Set *set)
{
	ListCell   *lc;
	int			n = 0;

	for (int i = 0; i < set->nrows; i++)
		if (!list_member_ptr(pending.deleted, set->rows[i]))
			set->rows[n++] = set->rows[i];
	foreach(lc, pending.inserted)
		set->rows[n++] = lfirst(lc);
	set->nrows = n;
	qsort(set->rows, n, sizeof(Scd2Row *), by_start);

	n = 0;
	for (int i = 0; i < set->nmemory; i++)
		if (!list_member_ptr(pending.forgotten, set->memory[i]))
			set->memory[n++] = set->memory[i];
	foreach(lc, pending.remembered)
		set->memory[n++] = lfirst(lc);
	set->nmemory = n;
	qsort(set->memory, n, sizeof(Scd2Memory *), by_sequence);
}

/* ---- events ---- */

static int
by_seq(const void *a, const void *b)
{
	return ((const Given *) a)->seq - ((const Given *) b)->seq;
}

static void
add_mark(Set *set, const Given *given)
{
	int			at = set->nmarks;

	while (at > 0 && SEQ(set->marks[at - 1].sequence) > given->seq)
	{
		set->marks[at] = set->marks[at - 1];
		at--;
	}
	set->marks[at].sequence = SEQUENCE(given->seq, given->image);
	set->marks[at].snapshot = given->is_snapshot;
	set->marks[at].yields = given->is_horizon;
	set->marks[at].kind = given->kind;
	set->nmarks++;
	set->timeline.marks = set->marks;
	set->timeline.nmarks = set->nmarks;
}

/* What adding a truncate that is a close, or a horizon, takes: see timeline.h. */
static void
remember_deletes_at(Set *set, int seq)
{
	bool		needed = false;
	Datum		end = (Datum) 0;
	Scd2Memory *memory;

	if (set->one)
		return;
	for (int i = 0; i < set->nrows; i++)
		if (!set->rows[i]->open && SEQ(set->rows[i]->end) == seq)
		{
			needed = true;
			end = set->rows[i]->end;
		}
	for (int i = 0; i < set->nrows; i++)
		needed &= SEQ(set->rows[i]->start) != seq;
	for (int i = 0; i < set->nmemory; i++)
		needed &= SEQ(set->memory[i]->sequence) != seq;
	for (int i = 0; i < set->nmarks; i++)
		needed &= SEQ(set->marks[i].sequence) != seq;
	if (!needed)
		return;
	memory = palloc0(sizeof(Scd2Memory));
	memory->sequence = end;
	memory->kind = SCD2_REMEMBER_DELETE;
	set->memory[set->nmemory++] = memory;
	qsort(set->memory, set->nmemory, sizeof(Scd2Memory *), by_sequence);
}

static void
give(Set *set, Given *batch, int n)
{
	Given		sorted[MAX_EVENTS];

	memcpy(sorted, batch, n * sizeof(Given));
	qsort(sorted, n, sizeof(Given), by_seq);
	for (int i = 0; i < n; i++)
		if (batch[i].is_truncate)
		{
			if (batch[i].kind == SCD2_CLOSE)
				remember_deletes_at(set, batch[i].seq);
			add_mark(set, &batch[i]);
		}
	memset(&pending, 0, sizeof(pending));
	pending.set = set;
	set->changes = 0;
	start_reading(set, sorted[0].seq);
	scd2_timeline_begin(&set->timeline);
	for (int i = 0; i < n; i++)
	{
		Scd2Event	event = {
			.sequence = SEQUENCE(sorted[i].seq, sorted[i].image),
			.kind = sorted[i].kind,
			.place = sorted[i].place,
			.image = sorted[i].kind == SCD2_UPSERT ? image_of(sorted[i].v, sorted[i].whole) : NULL
		};

		scd2_timeline_event(&set->timeline, &event);
	}
	scd2_timeline_end(&set->timeline);
	write_pending(set);
}

/* ---- the definition ---- */

static int
compare_given(const Given *a, const Given *b)
{
	if ((a->kind == SCD2_CLOSE) != (b->kind == SCD2_CLOSE))
		return a->kind != SCD2_CLOSE ? 1 : -1;
	if (a->place.version != b->place.version)
		return a->place.version > b->place.version ? 1 : -1;
	if (a->kind != b->kind)
		return a->kind == SCD2_DELETE ? 1 : -1;
	/* NULL (0 here) is greatest */
	for (int i = 0; i < VALUES && a->kind == SCD2_UPSERT; i++)
		if (a->v[i] != b->v[i])
			return (a->v[i] == 0 ? 1000 : a->v[i]) - (b->v[i] == 0 ? 1000 : b->v[i]);
	return a->image - b->image;
}

static bool
says(const Given *given, int i)
{
	return given->whole || given->v[i] != 0 || shape.ignores_null == NULL || !ignores_null[i + 1];
}

/* Two upserts at one sequence, where NULL says nothing: of each column the greatest that is sent. */
static void
unite(Given *into, const Given *other)
{
	for (int i = 0; i < VALUES; i++)
		if (says(other, i) && (!says(into, i) || (into->v[i] != 0 && (other->v[i] == 0 || other->v[i] > into->v[i]))))
			into->v[i] = other->v[i];
	into->whole |= other->whole;
	into->image = Max(into->image, other->image);
}

/* What counts at each sequence, ascending. */
static int
winners(Set *set, Given *out)
{
	Given		sorted[MAX_EVENTS];
	int			n = 0;

	memcpy(sorted, set->events, set->n * sizeof(Given));
	qsort(sorted, set->n, sizeof(Given), by_seq);
	for (int i = 0; i < set->n; i++)
	{
		if (n > 0 && out[n - 1].seq == sorted[i].seq)
		{
			if (set->ignores && sorted[i].kind == SCD2_UPSERT && out[n - 1].kind == SCD2_UPSERT &&
				sorted[i].place.version == 0 && out[n - 1].place.version == 0)
				unite(&out[n - 1], &sorted[i]);
			else if (compare_given(&sorted[i], &out[n - 1]) > 0)
				out[n - 1] = sorted[i];
		}
		else
			out[n++] = sorted[i];
	}
	return n;
}

/* The same with what they do not say as it was before. */
static int
resolved(Set *set, Given *out)
{
	int			n = winners(set, out);

	for (int i = 0; i < n; i++)
		for (int k = 0; k < VALUES && out[i].kind == SCD2_UPSERT; k++)
			if (!says(&out[i], k))
				out[i].v[k] = i > 0 && out[i - 1].kind == SCD2_UPSERT ? out[i - 1].v[k] : 0;
	return n;
}

static bool
same_tracked(const Given *a, const Given *b)
{
	for (int i = 0; i < VALUES; i++)
		if (tracked[i + 1] && a->v[i] != b->v[i])
			return false;
	return true;
}

/* The bound of an interval; who has joined changes nothing from there on. */
static char *
bound(Set *set, int seq, int image)
{
	return seq <= set->joined ? psprintf("%d", set->joined) : psprintf("%d%s", seq, image ? "'" : "");
}

static void
expected_rows(Set *set, StringInfo out)
{
	Given		events[MAX_EVENTS];
	int			n = resolved(set, events);

	for (int i = 0; i < n;)
	{
		int			last = i;

		if (events[i].kind != SCD2_UPSERT)
		{
			i++;
			continue;
		}
		while (last + 1 < n && events[last + 1].kind == SCD2_UPSERT && same_tracked(&events[last + 1], &events[i]))
			last++;
		if (set->one ? last == n - 1 : last == n - 1 || events[last + 1].seq > set->joined)
			appendStringInfo(out, "(%d,%d,%d)", events[last].v[0], events[last].v[1], events[last].v[2]);
		if (!set->one && last + 1 < n && events[last + 1].seq > set->joined)
			appendStringInfo(out, "[%s,%s) ", bound(set, events[i].seq, events[i].image), bound(set, events[last + 1].seq, events[last + 1].image));
		else if (!set->one && last == n - 1)
			appendStringInfo(out, "[%s,-) ", bound(set, events[i].seq, events[i].image));
		i = last + 1;
	}
}

static void
actual_rows(Set *set, StringInfo out)
{
	for (int i = 0; i < set->nrows; i++)
	{
		Scd2Row    *row = set->rows[i];

		if (!set->one && !row->open && SEQ(row->end) <= set->joined)
			continue;
		appendStringInfo(out, "(%d,%d,%d)", value_of(row->image, 0), value_of(row->image, 1), value_of(row->image, 2));
		if (!set->one)
		{
			appendStringInfo(out, "[%s,", bound(set, SEQ(row->start), IMAGE(row->start)));
			if (row->open)
				appendStringInfoString(out, "-)");
			else
				appendStringInfo(out, "%s)", bound(set, SEQ(row->end), IMAGE(row->end)));
		}
		if (!set->one)
			appendStringInfoChar(out, ' ');
	}
}

static bool
begins_or_lacks(const Given *events, const Given *sent, int n, int i)
{
	for (int k = 0; k < VALUES; k++)
		if (ignores_null[k + 1] && sent[i].v[k] == 0)
			return true;
	return i + 1 < n && events[i + 1].kind == SCD2_UPSERT && same_tracked(&events[i], &events[i + 1]);
}

/*
 * Type 2: hidden upserts, deletes that end no row and follow from no mark, closes. Nothing else,
 * with places at most one per sequence. Where NULL says nothing: also upserts that begin a run that
 * goes on, or do not send all.
 */
static bool
memory_is_small(Set *set)
{
	Given		events[MAX_EVENTS];
	Given		sent[MAX_EVENTS];
	int			n = resolved(set, events);
	int			most = 0;

	(void) winners(set, sent);

	for (int i = 0; i < n; i++)
	{
		bool		ends_row = i > 0 && events[i - 1].kind == SCD2_UPSERT;
		bool		marked = false;
		bool		closed = false;

		for (int m = 0; m < set->nmarks; m++)
			if (SEQ(set->marks[m].sequence) == events[i].seq)
			{
				closed |= !set->marks[m].snapshot && set->marks[m].kind == SCD2_CLOSE;
				marked |= !set->marks[m].snapshot && set->marks[m].kind == SCD2_DELETE && IMAGE(set->marks[m].sequence) >= events[i].image;
			}
		if (set->places || events[i].kind == SCD2_CLOSE)
			most++;
		else if (events[i].kind == SCD2_UPSERT)
			most += (ends_row && same_tracked(&events[i - 1], &events[i])) || (set->ignores && begins_or_lacks(events, sent, n, i));
		else
			most += (!ends_row || closed) && !marked;
	}
	return set->one ? set->nmemory <= 1 : set->nmemory <= most;
}

static void
check(Set *set, const char *when)
{
	StringInfoData expected;
	StringInfoData actual;

	initStringInfo(&expected);
	initStringInfo(&actual);
	expected_rows(set, &expected);
	actual_rows(set, &actual);
	if (strcmp(expected.data, actual.data) != 0)
		elog(ERROR, "%s: expected %s got %s after %s", when, expected.data, actual.data, set->log.data);
	if (set->joined == 0 && !memory_is_small(set))
		elog(ERROR, "%s: %d remembered after %s", when, set->nmemory, set->log.data);
}

static void
log_events(Set *set, const Given *batch, int n)
{
	for (int i = 0; i < n; i++)
		appendStringInfo(&set->log, "%s%s(%d,%d,%d)@%d%s#" INT64_FORMAT " ",
						 batch[i].is_truncate ? "T" : batch[i].is_snapshot ? "S" : "",
						 batch[i].kind == SCD2_UPSERT ? batch[i].whole ? "w" : "v" : batch[i].kind == SCD2_DELETE ? "DEL" : "CLOSE",
						 batch[i].v[0], batch[i].v[1], batch[i].v[2], batch[i].seq, batch[i].image ? "'" : "", batch[i].place.version);
	appendStringInfoString(&set->log, "| ");
}

/* Type 1, where NULL says nothing, is not for closes: see partial.c. */
static bool
knows_no_close(Set *set)
{
	return set->one && set->ignores;
}

static Given
random_event(Set *set, int span)
{
	Given		given = {.seq = random_int(set, 1, span), .image = set->images && random_int(set, 0, 2) == 0, .kind = SCD2_UPSERT};
	int			kind = random_int(set, 1, 100);

	if (kind <= 15)
		given.kind = SCD2_DELETE;
	else if (kind <= 22 && !knows_no_close(set))
		given.kind = SCD2_CLOSE;
	else if (kind > 22 && kind <= 27 && set->truncates)
	{
		given.kind = random_int(set, 0, 1) || knows_no_close(set) || set->images ? SCD2_DELETE : SCD2_CLOSE;
		given.is_truncate = true;
	}
	if (given.kind == SCD2_UPSERT)
	{
		for (int i = 0; i < VALUES; i++)
			given.v[i] = random_int(set, 0, i < 2 ? 2 : 3);
		given.whole = set->ignores && random_int(set, 0, 5) == 0;
	}
	/* Where NULL says nothing, what has a place is whole, and no close. */
	if (set->places && !given.is_truncate && random_int(set, 0, 3) > 0 && !(set->ignores && given.kind == SCD2_CLOSE))
	{
		given.place = (Scd2Place) {random_int(set, 1, 1000000), 1};
		given.whole = set->ignores && given.kind == SCD2_UPSERT;
	}
	return given;
}

/* The key as it is just before a sequence, by the definition. */
static Given
state_before(Set *set, int seq)
{
	Given		events[MAX_EVENTS];
	int			n = resolved(set, events);
	Given		state = {.kind = SCD2_DELETE};

	for (int i = 0; i < n && events[i].seq < seq; i++)
		state = events[i];
	if (state.kind != SCD2_UPSERT)
		state = (Given) {.kind = SCD2_DELETE};
	return state;
}

static bool
has_event_at(Set *set, int seq)
{
	for (int i = 0; i < set->n; i++)
		if (set->events[i].seq == seq)
			return true;
	return false;
}

/*
 * A complete snapshot later than all before: the engine is given what differs from just before it
 * (or meets an event at it), and the mark; the definition the event.
 */
static void
give_snapshot(Set *set, int seq)
{
	Given		given = random_event(set, 1);
	Given		before;
	bool		taken;

	given.seq = seq;
	given.is_truncate = false;
	given.is_snapshot = true;
	given.place = (Scd2Place) {0, 0};
	if (given.kind != SCD2_UPSERT || random_int(set, 0, 2) == 0)
		given = (Given) {.seq = seq, .image = given.image, .kind = SCD2_DELETE, .is_snapshot = true};
	before = state_before(set, seq);
	if (random_int(set, 0, 2) == 0)
	{
		given.kind = before.kind;
		memcpy(given.v, before.v, sizeof(given.v));
	}
	given.whole = true;
	log_events(set, &given, 1);
	taken = has_event_at(set, seq);
	set->events[set->n++] = given;
	if (taken || given.kind != before.kind || memcmp(given.v, before.v, sizeof(given.v)) != 0)
		give(set, &given, 1);
	add_mark(set, &given);
	check(set, "snapshot");
}

/* The lowest horizon: that of a flow that has joined may be as low as where it did. */
static int
lowest_horizon(Set *set)
{
	return set->joined > 0 ? set->joined : set->horizon;
}

/*
 * Is what is remembered needed above the horizon? What was sent, in a row that goes on over it,
 * unless the row shows all.
 */
static bool
is_needed(Set *set, const Scd2Memory *memory)
{
	int			sequence = SEQ(memory->sequence);

	if (sequence >= lowest_horizon(set))
		return true;
	for (int i = 0; i < set->nrows && !set->one; i++)
		if (!(tracked[1] && tracked[2] && tracked[3]) && memory->sent != NULL && SEQ(set->rows[i]->start) <= sequence &&
			(set->rows[i]->open || SEQ(set->rows[i]->end) > lowest_horizon(set)))
			return true;
	return false;
}

/* What is below the horizon is forgotten. */
static void
drop_memory(Set *set)
{
	int			n = 0;

	for (int i = 0; i < set->nmemory; i++)
		if (is_needed(set, set->memory[i]))
			set->memory[n++] = set->memory[i];
	set->nmemory = n;
	n = 0;
	for (int i = 0; i < set->nmarks; i++)
		if (SEQ(set->marks[i].sequence) >= lowest_horizon(set))
			set->marks[n++] = set->marks[i];
	set->nmarks = set->timeline.nmarks = n;
}

/* Of a batch, what is not too late; in the order in which it came. */
static int
accept(Set *set, Given *batch, int n)
{
	int			accepted = 0;

	for (int i = 0; i < n; i++)
		if ((set->joined == 0 || batch[i].seq != set->joined) && batch[i].seq >= set->horizon)	/* see timeline.h on marks that yield */
		{
			if (set->lateness > 0)
				set->horizon = Max(set->horizon, batch[i].seq - set->lateness);
			batch[accepted++] = batch[i];
		}
	return accepted;
}

/* Older events, of a flow that joins: behind a snapshot at the horizon that says how the key was. */
static void
give_older(Set *set)
{
	Given		batch[3];
	int			n = random_int(set, 1, 3);

	if (set->joined == 0)
	{
		remember_deletes_at(set, set->horizon);
		add_mark(set, &(Given) {.seq = set->horizon, .is_snapshot = true, .is_horizon = true});
		set->joined = set->horizon;
	}
	for (int i = 0; i < n; i++)
	{
		batch[i] = random_event(set, set->joined - 1);
		batch[i].is_truncate = false;
	}
	appendStringInfo(&set->log, "older than %d: ", set->joined);
	log_events(set, batch, n);
	give(set, batch, n);
	check(set, "older");
}

static void
one_set(uint64 seed)
{
	Set		   *set = palloc0(sizeof(Set));
	int			total;
	int			span;
	int			snapshot_at = 0;

	pg_prng_seed(&set->rng, seed);
	set->one = random_int(set, 0, 2) == 0;
	set->places = random_int(set, 0, 2) == 0;
	set->ignores = random_int(set, 0, 1) == 0;
	set->images = random_int(set, 0, 1) == 0;
	set->truncates = !set->images || random_int(set, 0, 1) == 0;
	shape.ignores_null = set->ignores ? ignores_null : NULL;
	tracked[1] = true;
	tracked[2] = random_int(set, 0, 1);
	tracked[3] = random_int(set, 0, 3) == 0;
	for (int i = 1; i < COLUMNS; i++)
		ignores_null[i] = random_int(set, 0, 2) > 0;
	initStringInfo(&set->log);
	appendStringInfo(&set->log, "seed " UINT64_FORMAT " type %d%s", seed, set->one ? 1 : 2, set->places ? " places" : "");
	if (set->ignores)
		appendStringInfo(&set->log, " ignores %d%d%d", ignores_null[1], ignores_null[2], ignores_null[3]);
	appendStringInfo(&set->log, " tracks %d%d%d: ", tracked[1], tracked[2], tracked[3]);
	set->timeline.shape = &shape;
	set->timeline.scd_type = set->one ? 1 : 2;
	set->timeline.compare = (FmgrInfo) {.fn_addr = compare_sequences, .fn_nargs = 2, .fn_strict = true, .fn_mcxt = CurrentMemoryContext};
	set->timeline.sequence_typlen = 8;
	set->timeline.sequence_typbyval = true;
	set->timeline.remembers = true;
	set->timeline.remembers_places = set->places;
	set->timeline.use.arg = set;
	set->timeline.use.next_row = next_row;
	set->timeline.use.next_memory = next_memory;
	set->timeline.use.image_before = image_before;
	set->timeline.use.change = change;
	set->timeline.use.remember = do_remember;

	total = random_int(set, 1, random_int(set, 0, 3) == 0 ? MAX_EVENTS - 2 : 12);
	span = random_int(set, 2, 30);
	if (random_int(set, 0, 3) == 0)
	{
		set->lateness = random_int(set, 1, span);
		appendStringInfo(&set->log, "lateness %d: ", set->lateness);
	}
	while (set->n < total)
	{
		Given		batch[MAX_EVENTS];
		int			n = random_int(set, 1, 6);

		if (set->horizon > 1 && (set->joined > 0 || !set->ignores || !has_event_at(set, set->horizon)) && random_int(set, 0, 9) == 0)
			give_older(set);
		if (snapshot_at < span && !(set->images && set->truncates) && random_int(set, 0, 7) == 0)
		{
			snapshot_at = random_int(set, Max(snapshot_at + 1, Min(set->horizon + 1, span)), span);
			if (snapshot_at < set->horizon)
				break;
			give_snapshot(set, snapshot_at);
			continue;
		}
		n = Min(n, total - set->n);
		for (int i = 0; i < n; i++)
			batch[i] = set->n > 0 && random_int(set, 0, 9) == 0 && !set->events[random_int(set, 0, set->n - 1)].is_snapshot ?
				set->events[0].is_snapshot ? random_event(set, span) : set->events[0] : random_event(set, span);
		n = accept(set, batch, n);
		total -= n == 0;
		if (n == 0)
			continue;
		log_events(set, batch, n);
		memcpy(set->events + set->n, batch, n * sizeof(Given));
		set->n += n;
		give(set, batch, n);
		check(set, "batch");
		n = accept(set, batch, n);
		if (n == 0)
			continue;
		give(set, batch, n);
		/* (That a snapshot met a deleted key may be remembered anew of each column.) */
		if (set->changes != 0 && !set->places && !(knows_no_close(set) && snapshot_at > 0))
			elog(ERROR, "replay changed %d after %s", set->changes, set->log.data);
		check(set, "replay");
		if (set->lateness > 0 && random_int(set, 0, 2) > 0)
		{
			appendStringInfo(&set->log, "horizon %d ", set->horizon);
			drop_memory(set);
		}
	}
}

Datum
scd2_timeline_fuzz(PG_FUNCTION_ARGS)
{
	int64		seed = PG_GETARG_INT64(0);
	int64		sets = PG_GETARG_INT64(1);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "fuzz", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	for (int64 i = 0; i < sets; i++)
	{
		one_set((uint64) (seed + i));
		MemoryContextReset(cxt);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(old);
	PG_RETURN_INT64(sets);
}
