/*
 * kept_layout.c
 *		The columns of rows that are kept aside (capture/backlog.c), as bytes.
 *
 * Rows wait in the layout that they were formed in, which is kept with them. Types are named by their
 * oids, which are the same after pg_upgrade, and with what tells where a value ends: so rows can be
 * read when a type is gone. Numbers are in network byte order, values as datumSerialize() has them.
 *
 * Which column of the feed's relation each one is may not be known when a layout is kept: columns that
 * came before it may be waiting too. It is found when the rows' turn comes, in scd2_internal.feed_column,
 * by the number in the source, which never changes.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/syscache.h"

#include "compat.h"
#include "feed/kept_layout.h"
#include "feed/layout.h"

#define FORMAT		1			/* of these bytes: another one whenever they change */

/* Is the type of a column gone, or its collation? Both take the columns that have them along. */
bool
scd2_column_type_is_gone(Form_pg_attribute att)
{
	return !SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(att->atttypid)) ||
		(OidIsValid(att->attcollation) && !SearchSysCacheExists1(COLLOID, ObjectIdGetDatum(att->attcollation)));
}

static void
pack_value(StringInfo to, Form_pg_attribute att, Datum value)
{
	Size		size = datumEstimateSpace(value, false, att->attbyval, att->attlen);
	char	   *bytes = palloc(size);
	char	   *end = bytes;

	datumSerialize(value, false, att->attbyval, att->attlen, &end);
	pq_sendint32(to, size);
	pq_sendbytes(to, bytes, size);
	pfree(bytes);
}

static void
pack_column(StringInfo to, Form_pg_attribute att, const Scd2Column *column)
{
	pq_sendbytes(to, NameStr(att->attname), NAMEDATALEN);
	pq_sendint32(to, att->atttypid);
	pq_sendint32(to, att->atttypmod);
	pq_sendint32(to, att->attcollation);
	pq_sendint16(to, att->attndims);
	pq_sendint16(to, att->attlen);
	pq_sendbyte(to, att->attbyval);
	pq_sendbyte(to, att->attalign);
	pq_sendint16(to, column->source_attnum);
	pq_sendint16(to, column->feed_attnum);
	pq_sendint32(to, column->replaces);
	pq_sendbyte(to, column->replaced);
	pq_sendint16(to, column->was);
	pq_sendint64(to, column->until);
	pq_sendbyte(to, column->gone);
	pq_sendint64(to, column->gone_at);
	pq_sendbyte(to, column->has_missing);
	if (column->has_missing)
		pack_value(to, att, column->missing);
}

/*
 * The layout of a feed's rows, and what stays out of them.
 */
bytea *
scd2_layout_pack(const Scd2Feed *feed)
{
	StringInfoData to;
	ListCell   *lc;

	pq_begintypsend(&to);
	pq_sendbyte(&to, FORMAT);
	pq_sendint32(&to, feed->layout->natts);
	for (int i = 0; i < feed->layout->natts; i++)
		pack_column(&to, TupleDescAttr(feed->layout, i), &feed->columns[i]);
	pq_sendint32(&to, list_length(feed->excluded));
	foreach(lc, feed->excluded)
	{
		const Scd2Excluded *excluded = lfirst(lc);
		NameData	name;

		namestrcpy(&name, excluded->name);
		pq_sendbytes(&to, NameStr(name), NAMEDATALEN);
		pq_sendint16(&to, excluded->source_attnum);
	}
	return pq_endtypsend(&to);
}

/* A column whose type is gone has no values any more, but rows have places for them. */
static void
init_column(TupleDesc desc, int i, const char *name, const FormData_pg_attribute *kept)
{
	Form_pg_attribute att = TupleDescAttr(desc, i);
	bool		there = SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(kept->atttypid));

	TupleDescInitEntry(desc, i + 1, name, there ? kept->atttypid : BYTEAOID, kept->atttypmod, kept->attndims);
	att->attcollation = kept->attcollation;
	if (there)
		return;
	att->atttypid = kept->atttypid;
	att->attlen = kept->attlen;
	att->attbyval = kept->attbyval;
	att->attalign = kept->attalign;
	scd2_attribute_changed(desc, i);
}

static void
unpack_column(StringInfo from, TupleDesc desc, int i, Scd2Column *column)
{
	FormData_pg_attribute kept = {0};
	NameData	name;

	pq_copymsgbytes(from, NameStr(name), NAMEDATALEN);
	kept.atttypid = pq_getmsgint(from, 4);
	kept.atttypmod = (int32) pq_getmsgint(from, 4);
	kept.attcollation = pq_getmsgint(from, 4);
	kept.attndims = (int16) pq_getmsgint(from, 2);
	kept.attlen = (int16) pq_getmsgint(from, 2);
	kept.attbyval = pq_getmsgbyte(from);
	kept.attalign = pq_getmsgbyte(from);
	init_column(desc, i, NameStr(name), &kept);
	column->source_attnum = (int16) pq_getmsgint(from, 2);
	column->feed_attnum = (int16) pq_getmsgint(from, 2);
	column->replaces = (int32) pq_getmsgint(from, 4);
	column->replaced = pq_getmsgbyte(from);
	column->was = (int16) pq_getmsgint(from, 2);
	column->until = pq_getmsgint64(from);
	column->gone = pq_getmsgbyte(from);
	column->gone_at = pq_getmsgint64(from);
	column->has_missing = pq_getmsgbyte(from);
	if (column->has_missing)
	{
		int			size = pq_getmsgint(from, 4);
		char	   *bytes = palloc(size);
		bool		isnull;

		pq_copymsgbytes(from, bytes, size);
		column->missing = datumRestore(&bytes, &isnull);
	}
}

/*
 * Gives a feed the layout that scd2_layout_pack() made bytes of. In feed->cxt.
 */
void
scd2_layout_unpack(Scd2Feed *feed, const bytea *packed)
{
	MemoryContext old = MemoryContextSwitchTo(feed->cxt);
	StringInfoData from;
	TupleDesc	layout;
	Scd2Column *columns;
	int			format;
	int			n;

	initStringInfo(&from);
	appendBinaryStringInfo(&from, VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
	format = pq_getmsgbyte(&from);
	if (format != FORMAT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("columns that were kept are of format %d, which this version of the library does not know", format)));
	n = pq_getmsgint(&from, 4);
	layout = CreateTemplateTupleDesc(n);
	columns = palloc0(n * sizeof(Scd2Column));
	for (int i = 0; i < n; i++)
		unpack_column(&from, layout, i, &columns[i]);
	scd2_layout_set(feed, layout, columns);
	feed->excluded = NIL;
	n = pq_getmsgint(&from, 4);
	for (int i = 0; i < n; i++)
	{
		Scd2Excluded *excluded = palloc0(sizeof(Scd2Excluded));

		excluded->name = palloc0(NAMEDATALEN);
		pq_copymsgbytes(&from, excluded->name, NAMEDATALEN);
		excluded->source_attnum = (int16) pq_getmsgint(&from, 2);
		feed->excluded = lappend(feed->excluded, excluded);
	}
	pq_getmsgend(&from);
	pfree(from.data);
	MemoryContextSwitchTo(old);
}

/* A row of feed_column: which column of the source one of the feed's is, or was until some version. */
typedef struct Known
{
	int16		source_attnum;
	int16		feed_attnum;
	const char *name;
	int16		was;
	int64		until;			/* 0: it still is */
	bool		taken;
} Known;

static Known *
read_known(const Scd2Feed *feed, int *n)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed->feed_id)};
	Known	   *known;

	if (SPI_execute_with_args("SELECT source_attnum, feed_attnum, name, was, until FROM scd2_internal.feed_column WHERE feed_id = $1 AND feed_attnum > 0",
							  1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.feed_column");
	*n = SPI_processed;
	known = palloc0((*n + 1) * sizeof(Known));
	for (int i = 0; i < *n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;

		known[i].source_attnum = DatumGetInt16(SPI_getbinval(row, desc, 1, &isnull));
		known[i].feed_attnum = DatumGetInt16(SPI_getbinval(row, desc, 2, &isnull));
		known[i].name = SPI_getvalue(row, desc, 3);
		known[i].was = DatumGetInt16(SPI_getbinval(row, desc, 4, &isnull));
		known[i].until = DatumGetInt64(SPI_getbinval(row, desc, 5, &isnull));
		if (isnull)
			known[i].until = 0;
	}
	return known;
}

/* The one that has this number in the source, or had it until then. NULL: none is left. */
static Known *
find_known(Known *known, int n, int16 attnum, int64 until, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!known[i].taken && known[i].until == until && (until == 0 ? known[i].source_attnum == attnum : known[i].was == attnum && strcmp(known[i].name, name) == 0))
			return &known[i];
	return NULL;
}

/* Which one a column of the layout is: one that gave way only now is known under its number. */
static Known *
find_column(const Scd2Feed *feed, int i, Known *known, int n)
{
	const Scd2Column *column = &feed->columns[i];
	Known	   *found;

	if (column->was == 0)
		return find_known(known, n, column->source_attnum, 0, NULL);
	found = find_known(known, n, column->was, column->until, NameStr(TupleDescAttr(feed->layout, i)->attname));
	return found != NULL ? found : find_known(known, n, column->was, 0, NULL);
}

/*
 * Finds the columns of the feed's relation that a layout's are by now. Of a number that several had, the
 * earlier in the layout come first: the last has it now, and may not be there yet. In a transaction with a
 * snapshot.
 */
void
scd2_layout_find_columns(Scd2Feed *feed)
{
	Known	   *known;
	int			n;

	SPI_connect();
	known = read_known(feed, &n);
	for (int i = SCD2_META_COLUMNS; i < feed->layout->natts; i++)
	{
		Scd2Column *column = &feed->columns[i];
		Known	   *found = column->replaced || (column->source_attnum == 0 && column->was == 0) ? NULL : find_column(feed, i, known, n);

		if (found == NULL)
			continue;
		found->taken = true;
		column->feed_attnum = found->feed_attnum;
		if (column->was != 0 && found->until != 0)
			column->source_attnum = found->source_attnum;
	}
	SPI_finish();
}
