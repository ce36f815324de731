/*
 * metadata.c
 *		The metadata columns at the front of each feed and of its partitions.
 *
 * They are the first columns of a feed as it is made, and of the partitions that it gets. They are
 * read and written by their numbers. See believed.c.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"

#include "feed/metadata.h"

const Scd2BelievedColumn scd2_meta_columns[SCD2_META_COLUMNS] = {
	{.name = "_change_type", .attnum = 1, .type = TEXTOID, .typmod = -1},
	{.name = "_commit_version", .attnum = 2, .type = INT8OID, .typmod = -1},
	{.name = "_commit_timestamp", .attnum = 3, .type = TIMESTAMPTZOID, .typmod = -1},
	{.name = "_change_ordinal", .attnum = 4, .type = INT4OID, .typmod = -1},
	{.name = "_xid", .attnum = 5, .type = XID8OID, .typmod = -1}
};

static char *
label(Relation rel)
{
	return psprintf("feed \"%s\"", RelationGetRelationName(rel));
}

/*
 * Does a feed, or a partition of one, have its metadata where we put it? (Its other columns are looked
 * at by those who need them.)
 */
bool
scd2_feed_fits(Relation feed, Scd2Misfit *misfit)
{
	return scd2_columns_fit(feed, label(feed), scd2_meta_columns, SCD2_META_COLUMNS, misfit);
}

/*
 * The same of a table that has a feed's rows: they are written, and its pages looked at, below the
 * executor.
 */
bool
scd2_leaf_fits(Relation leaf, Scd2Misfit *misfit)
{
	return scd2_table_fits(leaf, label(leaf), SCD2_BELIEVED_HEAP, misfit) && scd2_feed_fits(leaf, misfit);
}
