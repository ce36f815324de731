/*
 * layout.c
 *		The columns of a feed's rows, and how they follow those of the source.
 *
 * A layout is what rows are buffered in. It begins as the feed relation's columns and, until the
 * batch is written, only ever grows, at its end, so rows that were buffered earlier stay readable.
 * The writer makes the relation follow (writer.c).
 *
 * A column is followed by its number in the source, which never changes and is never used again, so
 * it keeps its values through any renaming. (A leaf's columns are found by the root's names.)
 * scd2_internal.feed_column has the numbers, as of the position.
 *
 *   added      appended. What the server shows for rows from before (a constant default) is what rows buffered before have, and earlier rows of the feed get
 *   renamed    renamed
 *   dropped    stays, NULL from then on
 *   new type   of the same values, as the same conversion makes them of what is in the feed: the feed's column gets the type. Rows in the buffer have the old one, so the new one is appended and
 *              "replaces" it
 *   other type, or one that a view on the feed is in the way of:
 *              what became of the values is not in the log: the column is kept, as one of a name that is followed no more, and a new one is appended. Rows have values of
 *              their own in that, which a repair brings (feed->retyped)
 *   name that a column has which is followed no more: that one becomes <name>_until_<version>
 *
 * Except in scd2_layout_read(), in decoder callbacks: only catalogs may be read, under a historic snapshot.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tupdesc.h"
#include "access/tupdesc_details.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "believed.h"
#include "feed/layout.h"

PG_FUNCTION_INFO_V1(scd2_takes_type);
PG_FUNCTION_INFO_V1(scd2_type_is_followed);

/* The 0-based index of a column that is there, or -1. */
int
scd2_layout_find(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return i;
	}
	return -1;
}

/* Both are the feed's from now on. In feed->cxt. */
void
scd2_layout_set(Scd2Feed *feed, TupleDesc layout, Scd2Column *columns)
{
	feed->layout = layout;
	feed->columns = columns;
	feed->values = palloc0(layout->natts * sizeof(Datum));
	feed->isnull = palloc0(layout->natts * sizeof(bool));
}

static Scd2Column *
make_columns(int n)
{
	Scd2Column *columns = palloc0(n * sizeof(Scd2Column));

	for (int i = 0; i < n; i++)
		columns[i].replaces = -1;
	return columns;
}

/*
 * A feed whose relation is gone, or is none any more: it fails at its next change (or is found to be
 * disabled later in the log). No rows are formed by this layout.
 */
void
scd2_layout_of_misfit(Scd2Feed *feed, const char *why)
{
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);
	TupleDesc	layout = CreateTemplateTupleDesc(SCD2_META_COLUMNS);

	for (int i = 0; i < SCD2_META_COLUMNS; i++)
		TupleDescInitEntry(layout, i + 1, scd2_meta_columns[i].name, scd2_meta_columns[i].type, -1, 0);
	scd2_layout_set(feed, layout, make_columns(SCD2_META_COLUMNS));
	feed->misfit = pstrdup(why);
	MemoryContextSwitchTo(old);
}

/*
 * The columns of the feed relation, dropped ones left out. In feed->cxt.
 */
void
scd2_layout_load(Scd2Feed *feed)
{
	Relation	rel = RelationIdGetRelation(feed->feed_relid);
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);
	Scd2Column *columns;
	TupleDesc	layout;
	Scd2Misfit	misfit;
	int			n = 0;

	if (rel == NULL || !scd2_feed_fits(rel, &misfit))
	{
		scd2_layout_of_misfit(feed, rel == NULL ? "the feed relation is gone" : misfit.what);
		if (rel != NULL)
			RelationClose(rel);
		MemoryContextSwitchTo(old);
		return;
	}
	for (int i = 0; i < rel->rd_att->natts; i++)
		if (!TupleDescAttr(rel->rd_att, i)->attisdropped)
			n++;
	layout = CreateTemplateTupleDesc(n);
	columns = make_columns(n);
	n = 0;
	for (int i = 0; i < rel->rd_att->natts; i++)
		if (!TupleDescAttr(rel->rd_att, i)->attisdropped)
		{
			columns[n].feed_attnum = i + 1;
			TupleDescCopyEntry(layout, ++n, rel->rd_att, i + 1);
		}
	scd2_layout_set(feed, layout, columns);
	MemoryContextSwitchTo(old);
	RelationClose(rel);
}

static Scd2Excluded *
find_excluded(List *excluded, const char *name)
{
	ListCell   *lc;

	foreach(lc, excluded)
		if (strcmp(((Scd2Excluded *) lfirst(lc))->name, name) == 0)
			return lfirst(lc);
	return NULL;
}

/* "names": a text[] of columns of the source that stay out. */
static void
exclude(Scd2Feed *feed, Datum names)
{
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);
	List	   *before = feed->excluded;
	Datum	   *elems;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(names), TEXTOID, -1, false, TYPALIGN_INT, &elems, NULL, &n);
	feed->excluded = NIL;
	for (int i = 0; i < n; i++)
	{
		Scd2Excluded *excluded = palloc0(sizeof(Scd2Excluded));
		Scd2Excluded *known;

		excluded->name = TextDatumGetCString(elems[i]);
		known = find_excluded(before, excluded->name);
		excluded->source_attnum = known ? known->source_attnum : 0;
		feed->excluded = lappend(feed->excluded, excluded);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Which columns stay out, from the control record that enables the feed: its first changes may be
 * decoded before its definition can be read. "names" is an array literal, or NULL.
 */
void
scd2_layout_exclude(Scd2Feed *feed, const char *names)
{
	if (names != NULL)
		exclude(feed, OidInputFunctionCall(F_ARRAY_IN, pstrdup(names), TEXTOID, -1));
}

/*
 * Learns from the feed's definition which columns stay out. In a transaction with a snapshot, never
 * while decoding.
 */
void
scd2_layout_read_exclusions(Scd2Feed *feed)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed->feed_id)};
	bool		isnull;

	SPI_connect();
	if (SPI_execute_with_args("SELECT except_columns::text[] FROM scd2_internal.feed WHERE feed_id = $1",
							  1, types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.feed");
	if (SPI_processed == 1)
		exclude(feed, SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
}

/* A row of scd2_internal.feed_column. */
static void
remember_column(Scd2Feed *feed, HeapTuple row, TupleDesc desc)
{
	bool		isnull;
	bool		is_former;
	int16		source_attnum = DatumGetInt16(SPI_getbinval(row, desc, 1, &isnull));
	int16		feed_attnum = DatumGetInt16(SPI_getbinval(row, desc, 2, &isnull));
	Scd2Excluded *excluded = feed_attnum == 0 ? find_excluded(feed->excluded, SPI_getvalue(row, desc, 3)) : NULL;
	int16		was = DatumGetInt16(SPI_getbinval(row, desc, 4, &isnull));
	int64		until = DatumGetInt64(SPI_getbinval(row, desc, 5, &is_former));

	is_former = !isnull;
	if (excluded)
		excluded->source_attnum = source_attnum;
	for (int i = SCD2_META_COLUMNS; i < feed->layout->natts; i++)
	{
		if (feed_attnum == 0 || feed->columns[i].feed_attnum != feed_attnum)
			continue;
		feed->columns[i].source_attnum = source_attnum;
		feed->columns[i].was = is_former ? was : 0;
		feed->columns[i].until = is_former ? until : 0;
	}
}

/*
 * Which column of the source each one is, and which stay out, as of the position. In a transaction
 * with a snapshot, never while decoding.
 */
void
scd2_layout_read(Scd2Feed *feed)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed->feed_id)};

	scd2_layout_read_exclusions(feed);
	SPI_connect();
	if (SPI_execute_with_args("SELECT source_attnum, feed_attnum, name, was, until FROM scd2_internal.feed_column WHERE feed_id = $1",
							  1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.feed_column");
	for (uint64 i = 0; i < SPI_processed; i++)
		remember_column(feed, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
	SPI_finish();
}

bool
scd2_layout_excludes(Scd2Feed *feed, const char *name)
{
	return find_excluded(feed->excluded, name) != NULL;
}

/* Does a column of the source stay out? It does under any name. */
static bool
stays_out(Scd2Feed *feed, Form_pg_attribute att)
{
	Scd2Excluded *excluded;
	ListCell   *lc;

	foreach(lc, feed->excluded)
	{
		excluded = lfirst(lc);
		if (excluded->source_attnum != att->attnum)
			continue;
		if (strcmp(excluded->name, NameStr(att->attname)) != 0)
		{
			excluded->name = pstrdup(NameStr(att->attname));
			feed->columns_changed = true;
		}
		return true;
	}
	excluded = find_excluded(feed->excluded, NameStr(att->attname));
	if (excluded == NULL || excluded->source_attnum != 0)
		return false;
	excluded->source_attnum = att->attnum;
	return true;
}

/* The column that has the values of one of the source's, or -1. */
int
scd2_layout_of_source(const Scd2Feed *feed, int16 source_attnum)
{
	for (int i = SCD2_META_COLUMNS; i < feed->layout->natts; i++)
		if (feed->columns[i].source_attnum == source_attnum && !feed->columns[i].replaced)
			return i;
	return -1;
}

/* Appends a column like "att", with its base type. Returns its index. */
static int
append_column(Scd2Feed *feed, Form_pg_attribute att)
{
	TupleDesc	old = feed->layout;
	TupleDesc	layout = CreateTemplateTupleDesc(old->natts + 1);
	Scd2Column *columns = make_columns(old->natts + 1);
	int32		typmod = att->atttypmod;
	Oid			type = getBaseTypeAndTypmod(att->atttypid, &typmod);

	for (int i = 1; i <= old->natts; i++)
		TupleDescCopyEntry(layout, i, old, i);
	memcpy(columns, feed->columns, old->natts * sizeof(Scd2Column));
	TupleDescInitEntry(layout, old->natts + 1, NameStr(att->attname), type, typmod, att->attndims);
	TupleDescInitEntryCollation(layout, old->natts + 1, att->attcollation);
	columns[old->natts].source_attnum = att->attnum;
	scd2_layout_set(feed, layout, columns);
	feed->columns_changed = true;
	return old->natts;
}

/*
 * What rows that were there before a column was added show in it. "relation" has the rows: a
 * partitioned table has none.
 */
static void
take_missing(Scd2Feed *feed, int at, TupleDesc relation)
{
	int			i = scd2_layout_find(relation, NameStr(TupleDescAttr(feed->layout, at)->attname));
	Form_pg_attribute att = i < 0 ? NULL : TupleDescAttr(relation, i);
	AttrMissing *missing;

	if (att == NULL || !att->atthasmissing || relation->constr == NULL || relation->constr->missing == NULL)
		return;
	missing = &relation->constr->missing[i];
	if (!missing->am_present)
		return;
	feed->columns[at].has_missing = true;
	feed->columns[at].missing = datumCopy(missing->am_value, att->attbyval, att->attlen);
}

static bool
is_integer_or_numeric(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID;
}

/*
 * Does the server turn values of one type into the other in one way only, which is also that of
 * their text? Then what is in the feed is turned the same way.
 */
static bool
is_followed(Oid from, int32 from_typmod, Oid to, int32 to_typmod)
{
	Oid			function;

	if (from == to)
		return scd2_is_wider(to, from_typmod, to_typmod);
	if (to_typmod != -1)
		return false;
	if (is_integer_or_numeric(from))
		return to == TEXTOID || to == VARCHAROID ||
			(is_integer_or_numeric(to) && find_coercion_pathway(to, from, COERCION_IMPLICIT, &function) == COERCION_PATH_FUNC);
	return from != BPCHAROID && find_coercion_pathway(to, from, COERCION_IMPLICIT, &function) == COERCION_PATH_RELABELTYPE &&
		!OidIsValid(get_element_type(to));
}

/* Does the feed's column take the values of another type as it is? */
static bool
takes_type(Oid type, int32 typmod, Oid other, int32 other_typmod)
{
	return type == other && (typmod == other_typmod || scd2_is_wider(type, other_typmod, typmod));
}

/* scd2_internal.takes_type(type oid, typmod integer, other oid, other_typmod integer) */
Datum
scd2_takes_type(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(takes_type(PG_GETARG_OID(0), PG_GETARG_INT32(1), PG_GETARG_OID(2), PG_GETARG_INT32(3)));
}

/* scd2_internal.type_is_followed(from oid, from_typmod integer, to oid, to_typmod integer) */
Datum
scd2_type_is_followed(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(is_followed(PG_GETARG_OID(0), PG_GETARG_INT32(1), PG_GETARG_OID(2), PG_GETARG_INT32(3)));
}

/*
 * Is there something because of which the server would not give the feed's column another type? Views,
 * policies and triggers name columns; so do generated columns. (What comes before the batch is written
 * is met there: the feed fails.)
 */
static bool
is_held(Oid feed_relid, int16 attnum)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[3];
	SysScanDesc scan;
	HeapTuple	tup;
	bool		held = false;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(feed_relid));
	ScanKeyInit(&keys[2], Anum_pg_depend_refobjsubid, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(attnum));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 3, keys);
	while (!held && HeapTupleIsValid(tup = systable_getnext(scan)))
	{
		Oid			class = ((Form_pg_depend) GETSTRUCT(tup))->classid;

		held = class == RewriteRelationId || class == PolicyRelationId || class == TriggerRelationId || class == AttrDefaultRelationId;
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	return held;
}

/* A name for a column that gives way to another one. */
static void
retire(Scd2Feed *feed, int at, int64 version)
{
	NameData   *name = &TupleDescAttr(feed->layout, at)->attname;
	char	   *label = psprintf("until_" INT64_FORMAT, version);
	char	   *until = makeObjectName(NameStr(*name), NULL, label);

	for (int n = 2; scd2_layout_find(feed->layout, until) >= 0; n++)
		until = makeObjectName(NameStr(*name), NULL, psprintf("%s_%d", label, n));
	namestrcpy(name, until);
	feed->columns_changed = true;
}

/* The values of the source's column are others from here on: they go into a new column. */
static void
begin_anew(Scd2Feed *feed, int at, Form_pg_attribute source, const char *why, int64 version)
{
	retire(feed, at, version);
	feed->columns[at].was = source->attnum;
	feed->columns[at].until = version;
	feed->columns[at].source_attnum = SCD2_FORMER_COLUMN;
	(void) append_column(feed, source);
	feed->retyped = pstrdup(why);
}

/* The source's column may have another type than the feed's: follows it. */
static void
follow_type(Scd2Feed *feed, int at, Form_pg_attribute source, int64 version)
{
	Form_pg_attribute att = TupleDescAttr(feed->layout, at);
	int32		typmod = source->atttypmod;
	Oid			type = getBaseTypeAndTypmod(source->atttypid, &typmod);
	int16		feed_attnum = feed->columns[at].feed_attnum;
	int			by;

	if (takes_type(att->atttypid, att->atttypmod, type, typmod))
		return;
	if (!is_followed(att->atttypid, att->atttypmod, type, typmod))
	{
		begin_anew(feed, at, source,
				   psprintf("column \"%s\" changed its type from %s to %s: its values left no trace in the log", NameStr(source->attname),
							format_type_with_typemod(att->atttypid, att->atttypmod), format_type_with_typemod(type, typmod)),
				   version);
		return;
	}
	if (feed_attnum > 0 && is_held(feed->feed_relid, feed_attnum))
	{
		begin_anew(feed, at, source,
				   psprintf("column \"%s\" changed its type, and something that hangs on it in the feed keeps it there as it is", NameStr(source->attname)),
				   version);
		return;
	}
	by = append_column(feed, source);
	feed->columns[by].feed_attnum = feed_attnum;
	feed->columns[by].replaces = at;
	feed->columns[at].replaced = true;
	feed->columns[at].feed_attnum = 0;
	memset(&TupleDescAttr(feed->layout, at)->attname, 0, sizeof(NameData));
}

static bool
is_live(TupleDesc source, int16 attnum)
{
	return attnum > 0 && attnum <= source->natts && !TupleDescAttr(source, attnum - 1)->attisdropped;
}

/*
 * The column for one of the source's: the one that is followed, or one of that name that nobody
 * follows (alter_change_feed() makes such), or -1.
 */
static int
column_for(Scd2Feed *feed, TupleDesc source, Form_pg_attribute att, int64 version)
{
	int			at = scd2_layout_of_source(feed, att->attnum);
	int			same = scd2_layout_find(feed->layout, NameStr(att->attname));

	if (same >= SCD2_META_COLUMNS && same != at && !is_live(source, feed->columns[same].source_attnum))
	{
		if (at < 0 && feed->columns[same].source_attnum == 0)
		{
			feed->columns[same].source_attnum = att->attnum;
			feed->columns_changed = true;
			return same;
		}
		retire(feed, same, version);
	}
	return at;
}

static void
follow_column(Scd2Feed *feed, TupleDesc source, Form_pg_attribute att, TupleDesc relation, int64 version)
{
	int			at = column_for(feed, source, att, version);

	if (at < 0)
	{
		take_missing(feed, append_column(feed, att), relation);
		return;
	}
	if (strcmp(NameStr(TupleDescAttr(feed->layout, at)->attname), NameStr(att->attname)) != 0)
	{
		/* Another column that is followed may still have the name: its turn comes. */
		namestrcpy(&TupleDescAttr(feed->layout, at)->attname, NameStr(att->attname));
		feed->columns_changed = true;
	}
	follow_type(feed, at, att, version);
}

/* A column that no row outside of a transaction ever had: nothing shows that it was there. */
static void
forget_column(Scd2Feed *feed, int at)
{
	feed->columns[at].replaced = true;
	memset(&TupleDescAttr(feed->layout, at)->attname, 0, sizeof(NameData));
}

/*
 * What was dropped. If that was in the midst of a transaction, its rows from before show NULL too:
 * an image of a row must be equal to the one that takes it away.
 */
static void
let_go(Scd2Feed *feed, TupleDesc source, int64 version, TransactionId xid)
{
	for (int i = SCD2_META_COLUMNS; i < feed->layout->natts; i++)
	{
		Scd2Column *column = &feed->columns[i];

		if (column->gone || column->replaced || column->source_attnum == 0 || column->was != 0 || is_live(source, column->source_attnum))
			continue;
		if (TransactionIdIsValid(xid) && column->came_with == xid && column->feed_attnum == 0)
		{
			forget_column(feed, i);
			continue;
		}
		column->gone = true;
		column->gone_at = feed->rows != NULL && feed->last_version == version ? version : 0;
		feed->columns_changed |= column->gone_at != 0;
	}
}

/* How many columns have no values any more. */
int
scd2_layout_gone(const Scd2Feed *feed)
{
	int			n = 0;

	for (int i = SCD2_META_COLUMNS; i < feed->layout->natts; i++)
		n += feed->columns[i].gone;
	return n;
}

/*
 * Makes the layout fit a source of this shape; "relation" is what has the rows, the source or a
 * leaf of it; "version" what its next change has; "xid" its transaction, if known. What cannot be followed becomes feed->misfit, what
 * is followed by a new column, with values of its own, feed->retyped.
 */
void
scd2_layout_follow(Scd2Feed *feed, TupleDesc source, TupleDesc relation, int64 version, TransactionId xid)
{
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);
	int			known = feed->layout->natts;

	let_go(feed, source, version, xid);
	for (int i = 0; i < source->natts && (feed->failure == NULL || feed->repairs); i++)
	{
		Form_pg_attribute att = TupleDescAttr(source, i);
		int			at;

		if (att->attisdropped || att->attgenerated == 'v' || stays_out(feed, att))
			continue;
		at = scd2_layout_find(feed->layout, NameStr(att->attname));
		if (at >= 0 && at < SCD2_META_COLUMNS)
			feed->misfit = psprintf("column \"%s\" has the name of a metadata column", NameStr(att->attname));
		else
			follow_column(feed, source, att, relation, version);
	}
	for (int i = known; i < feed->layout->natts; i++)
		feed->columns[i].came_with = xid;
	MemoryContextSwitchTo(old);
}

/*
 * The batch is written: the layout becomes what the relation has.
 */
void
scd2_layout_settle(Scd2Feed *feed)
{
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);
	int			n = 0;
	TupleDesc	layout;
	Scd2Column *columns;

	for (int i = 0; i < feed->layout->natts; i++)
		n += feed->columns[i].replaced ? 0 : 1;
	layout = CreateTemplateTupleDesc(n);
	columns = make_columns(n);
	n = 0;
	for (int i = 0; i < feed->layout->natts; i++)
	{
		if (feed->columns[i].replaced)
			continue;
		columns[n].source_attnum = feed->columns[i].source_attnum;
		columns[n].feed_attnum = feed->columns[i].feed_attnum;
		columns[n].gone = feed->columns[i].gone;
		columns[n].was = feed->columns[i].was;
		columns[n].until = feed->columns[i].until;
		TupleDescCopyEntry(layout, ++n, feed->layout, i + 1);
	}
	scd2_layout_set(feed, layout, columns);
	feed->columns_changed = false;
	MemoryContextSwitchTo(old);
}
