/*
 * layout.c
 *		The columns of a feed's rows, and how they follow those of the source.
 *
 * A layout is what rows are buffered in. It begins as the feed relation's columns and only ever grows, at its end, so rows that were buffered earlier stay readable
 * (what they lack is NULL). The writer makes the relation follow (writer.c).
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "feed/layout.h"

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

static void
set_layout(Scd2Feed *feed, TupleDesc layout)
{
	feed->layout = layout;
	feed->values = palloc0(layout->natts * sizeof(Datum));
	feed->isnull = palloc0(layout->natts * sizeof(bool));
}

/* A feed whose relation is gone: it fails at its next change (or is found to be disabled later in the log). */
static void
set_layout_of_gone(Scd2Feed *feed)
{
	static const struct
	{
		const char *name;
		Oid			type;
	}			meta[] = {
		{"_change_type", TEXTOID}, {"_commit_version", INT8OID}, {"_commit_timestamp", TIMESTAMPTZOID},
		{"_change_ordinal", INT4OID}, {"_xid", XID8OID}
	};
	TupleDesc	layout = CreateTemplateTupleDesc(SCD2_META_COLUMNS);

	for (int i = 0; i < SCD2_META_COLUMNS; i++)
		TupleDescInitEntry(layout, i + 1, meta[i].name, meta[i].type, -1, 0);
	set_layout(feed, layout);
	feed->misfit = pstrdup("the feed relation is gone");
}

/*
 * The columns of the feed relation, dropped ones left out. In feed->cxt.
 */
void
scd2_layout_load(Scd2Feed *feed)
{
	Relation	rel = RelationIdGetRelation(feed->feed_relid);
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);
	TupleDesc	layout;
	int			n = 0;

	if (rel == NULL)
	{
		set_layout_of_gone(feed);
		MemoryContextSwitchTo(old);
		return;
	}
	for (int i = 0; i < rel->rd_att->natts; i++)
		if (!TupleDescAttr(rel->rd_att, i)->attisdropped)
			n++;
	layout = CreateTemplateTupleDesc(n);
	n = 0;
	for (int i = 0; i < rel->rd_att->natts; i++)
		if (!TupleDescAttr(rel->rd_att, i)->attisdropped)
			TupleDescCopyEntry(layout, ++n, rel->rd_att, i + 1);
	set_layout(feed, layout);
	MemoryContextSwitchTo(old);
	RelationClose(rel);
}

/* "names": a text[] of columns of the source that stay out. */
static void
exclude(Scd2Feed *feed, Datum names)
{
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);
	Datum	   *elems;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(names), TEXTOID, -1, false, TYPALIGN_INT, &elems, NULL, &n);
	feed->excluded = NIL;
	for (int i = 0; i < n; i++)
		feed->excluded = lappend(feed->excluded, TextDatumGetCString(elems[i]));
	MemoryContextSwitchTo(old);
}

/*
 * Which columns stay out, from the control record that enables the feed: its first changes may be decoded before its definition can be read. "names" is an array literal, or NULL.
 */
void
scd2_layout_exclude(Scd2Feed *feed, const char *names)
{
	if (names != NULL)
		exclude(feed, OidInputFunctionCall(F_ARRAY_IN, pstrdup(names), TEXTOID, -1));
}

/* Learns from the feed's definition which columns stay out. In a transaction with a snapshot, never while decoding. */
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

bool
scd2_layout_excludes(Scd2Feed *feed, const char *name)
{
	ListCell   *lc;

	foreach(lc, feed->excluded)
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	return false;
}

static void
append_column(Scd2Feed *feed, Form_pg_attribute att)
{
	TupleDesc	old = feed->layout;
	TupleDesc	layout = CreateTemplateTupleDesc(old->natts + 1);
	int32		typmod = att->atttypmod;
	Oid			type = getBaseTypeAndTypmod(att->atttypid, &typmod);

	for (int i = 1; i <= old->natts; i++)
		TupleDescCopyEntry(layout, i, old, i);
	TupleDescInitEntry(layout, old->natts + 1, NameStr(att->attname), type, typmod, att->attndims);
	TupleDescInitEntryCollation(layout, old->natts + 1, att->attcollation);
	set_layout(feed, layout);
}

/*
 * Makes the layout fit a source of this shape: appends the columns it does not know. A column whose type changed cannot be stored: the feed fails.
 */
void
scd2_layout_follow(Scd2Feed *feed, TupleDesc source)
{
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);

	for (int i = 0; i < source->natts && feed->failure == NULL; i++)
	{
		Form_pg_attribute att = TupleDescAttr(source, i);
		int			at;

		if (att->attisdropped || att->attgenerated == 'v' || scd2_layout_excludes(feed, NameStr(att->attname)))
			continue;
		at = scd2_layout_find(feed->layout, NameStr(att->attname));
		if (at < 0)
			append_column(feed, att);
		else if (at < SCD2_META_COLUMNS)
			feed->misfit = psprintf("column \"%s\" has the name of a metadata column", NameStr(att->attname));
		else if (getBaseType(att->atttypid) != TupleDescAttr(feed->layout, at)->atttypid)
			feed->misfit = psprintf("column \"%s\" changed its type", NameStr(att->attname));
	}
	MemoryContextSwitchTo(old);
}
