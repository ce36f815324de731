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
	int			n;

	initStringInfo(&from);
	appendBinaryStringInfo(&from, VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
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

/* Is a row of feed_column (source_attnum, was, until) that of this column? */
static bool
is_of_column(HeapTuple row, TupleDesc desc, const Scd2Column *column)
{
	bool		isnull;
	int16		source_attnum = DatumGetInt16(SPI_getbinval(row, desc, 1, &isnull));
	int16		was = DatumGetInt16(SPI_getbinval(row, desc, 3, &isnull));
	int64		until = isnull ? 0 : DatumGetInt64(SPI_getbinval(row, desc, 4, &isnull));

	return column->was == 0 ? source_attnum == column->source_attnum : was == column->was && until == column->until;
}

/*
 * Finds the columns of the feed's relation that a layout's are by now. In a transaction with a snapshot.
 */
void
scd2_layout_find_columns(Scd2Feed *feed)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed->feed_id)};

	SPI_connect();
	if (SPI_execute_with_args("SELECT source_attnum, feed_attnum, was, until FROM scd2_internal.feed_column WHERE feed_id = $1 AND feed_attnum > 0",
							  1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.feed_column");
	for (uint64 row = 0; row < SPI_processed; row++)
		for (int i = SCD2_META_COLUMNS; i < feed->layout->natts; i++)
		{
			Scd2Column *column = &feed->columns[i];
			bool		isnull;

			if (column->replaced || column->source_attnum == 0 || !is_of_column(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column))
				continue;
			column->feed_attnum = DatumGetInt16(SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 2, &isnull));
			if (column->was != 0)
				column->source_attnum = DatumGetInt16(SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1, &isnull));
		}
	SPI_finish();
}
