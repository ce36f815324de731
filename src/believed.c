/*
 * believed.c
 *		Relations of users that are read below the executor, compared with what we believe of them.
 *
 * Feeds, their partitions, targets and <target>_memory are tables of users, who can alter them. Our
 * code reads their rows as Datums, and a Datum does not tell its type: an integer taken for a text
 * is a pointer to wherever its value says. So nothing is read by an assumed type:
 *
 *   relations   are compared with what is believed of them when a flow or feed is loaded, and again
 *               under the lock under which they are read or written
 *   results     of statements over them are compared when their first row comes (scd2_check_result),
 *               or value by value (scd2_result_value): the planner takes columns as they are then
 *   images      that are kept as bytes have the layout with which they were formed beside them
 *
 * A difference is an error of the flow or feed, by the relation's and the column's name. The
 * SQLSTATEs are of class 42: errors that do not pass by themselves.
 */
#include "postgres.h"

#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "believed.h"
#include "compat.h"
#include "names.h"

/* Is a type the believed one, or a domain over it? */
bool
scd2_is_of_type(Oid type, Oid believed)
{
	return type == believed || getBaseType(type) == believed;
}

/*
 * Can every value of a type be one of the same type with another modifier, and does it stay as it
 * is? (Scale: as the server changes it.)
 */
bool
scd2_is_wider(Oid type, int32 from, int32 to)
{
	if (to == -1)
		return true;
	if (from == -1)
		return false;
	switch (type)
	{
		case VARCHAROID:
		case VARBITOID:
			return to >= from;
		case NUMERICOID:
			from -= VARHDRSZ;
			to -= VARHDRSZ;
			return (to & 0x7ff) == (from & 0x7ff) && (to >> 16) >= (from >> 16);
		default:
			return false;
	}
}

static bool
differs(Scd2Misfit *misfit, int sqlerrcode, char *what, char *remedy)
{
	misfit->sqlerrcode = sqlerrcode;
	misfit->what = what;
	misfit->remedy = remedy;
	return false;
}

static char *
sql_name(Relation rel)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel));
}

static char *
alter_column(Relation rel, const Scd2BelievedColumn *column, const char *how)
{
	return psprintf("ALTER TABLE %s ALTER COLUMN %s %s", sql_name(rel), quote_identifier(column->name), how);
}

static char *
type_sql(const Scd2BelievedColumn *column)
{
	char	   *type = format_type_extended(column->type, column->typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);

	if (!OidIsValid(column->collation) || column->collation == get_typcollation(column->type))
		return type;
	return psprintf("%s COLLATE %s", type, scd2_collation_name(column->collation));
}

static bool
type_fits(Relation rel, const char *label, const Scd2BelievedColumn *column, Form_pg_attribute att, Scd2Misfit *misfit)
{
	int32		typmod = att->atttypmod;
	Oid			type = getBaseTypeAndTypmod(att->atttypid, &typmod);

	if (type != column->type || (typmod != column->typmod && !scd2_is_wider(type, column->typmod, typmod)))
		return differs(misfit, ERRCODE_DATATYPE_MISMATCH,
					   psprintf("column \"%s\" of %s is of type %s instead of %s", column->name, label,
								format_type_with_typemod(att->atttypid, att->atttypmod), format_type_with_typemod(column->type, column->typmod)),
					   alter_column(rel, column, psprintf("TYPE %s USING %s::text::%s", type_sql(column), quote_identifier(column->name),
														  format_type_extended(column->type, column->typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY))));
	if (OidIsValid(column->collation) && att->attcollation != column->collation)
		return differs(misfit, ERRCODE_DATATYPE_MISMATCH,
					   psprintf("column \"%s\" of %s has another collation than it had", column->name, label),
					   alter_column(rel, column, psprintf("TYPE %s", type_sql(column))));
	return true;
}

static bool
column_fits(Relation rel, const char *label, const Scd2BelievedColumn *column, Scd2Misfit *misfit)
{
	TupleDesc	desc = RelationGetDescr(rel);
	AttrNumber	attnum = 0;
	Form_pg_attribute att;

	for (int i = 0; i < desc->natts && attnum == 0; i++)
		if (!TupleDescAttr(desc, i)->attisdropped && strcmp(NameStr(TupleDescAttr(desc, i)->attname), column->name) == 0)
			attnum = i + 1;
	if (attnum == 0)
		return differs(misfit, ERRCODE_UNDEFINED_COLUMN,
					   psprintf("column \"%s\" of %s does not exist", column->name, label),
					   psprintf("ALTER TABLE %s ADD COLUMN %s %s", sql_name(rel), quote_identifier(column->name), type_sql(column)));
	if (column->attnum != 0 && attnum != column->attnum)
		return differs(misfit, ERRCODE_INVALID_TABLE_DEFINITION,
					   psprintf("column \"%s\" of %s is column number %d instead of %d", column->name, label, attnum, column->attnum), NULL);
	att = TupleDescAttr(desc, attnum - 1);
	if (!type_fits(rel, label, column, att, misfit))
		return false;
	if (att->attgenerated != '\0')
		return differs(misfit, ERRCODE_INVALID_TABLE_DEFINITION,
					   psprintf("column \"%s\" of %s is generated", column->name, label),
					   alter_column(rel, column, "DROP EXPRESSION"));
	if (column->not_null && !scd2_is_never_null(desc, attnum))
		return differs(misfit, ERRCODE_INVALID_TABLE_DEFINITION,
					   psprintf("column \"%s\" of %s has lost its NOT NULL", column->name, label),
					   alter_column(rel, column, "SET NOT NULL"));
	return true;
}

/*
 * Has a relation, called "label" in messages, these columns? If not, "misfit" has the first that
 * differs. What it has besides is of no concern.
 */
bool
scd2_columns_fit(Relation rel, const char *label, const Scd2BelievedColumn *columns, int n, Scd2Misfit *misfit)
{
	for (int i = 0; i < n; i++)
		if (!column_fits(rel, label, &columns[i], misfit))
			return false;
	return true;
}

static bool
is_child(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		inherits = rel->rd_rel->relispartition;

	for (int i = 0; i < desc->natts && !inherits; i++)
		inherits = TupleDescAttr(desc, i)->attinhcount > 0;
	return inherits;
}

/*
 * Is a relation an ordinary table, whose rows outlive a crash, and what else is believed of it?
 * (Temporary ones of this session are copies of ours: rebuild.c.)
 */
bool
scd2_table_fits(Relation rel, const char *label, int believed, Scd2Misfit *misfit)
{
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return differs(misfit, ERRCODE_WRONG_OBJECT_TYPE, psprintf("%s is not an ordinary table", label), NULL);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
		return differs(misfit, ERRCODE_WRONG_OBJECT_TYPE, psprintf("%s is unlogged: a crash would empty it", label),
					   psprintf("ALTER TABLE %s SET LOGGED", sql_name(rel)));
	if ((believed & SCD2_BELIEVED_HEAP) != 0 && rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		return differs(misfit, ERRCODE_WRONG_OBJECT_TYPE, psprintf("%s is not stored as heap", label),
					   psprintf("ALTER TABLE %s SET ACCESS METHOD heap", sql_name(rel)));
	if ((believed & SCD2_BELIEVED_STANDALONE) != 0 && is_child(rel))
		return differs(misfit, ERRCODE_WRONG_OBJECT_TYPE, psprintf("%s is a partition or child of another table", label), NULL);
	return true;
}

/*
 * Raises unless columns "from" (from 0 on) and those after it of a result are of these types;
 * "what": whose result it is.
 */
void
scd2_check_result(TupleDesc desc, int from, int n, const Oid *types, const char *what)
{
	if (desc->natts < from + n)
		elog(ERROR, "result of %s has %d columns", what, desc->natts);
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, from + i);

		if (!scd2_is_of_type(att->atttypid, types[i]))
			ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
							errmsg("column \"%s\" of %s is of type %s instead of %s", NameStr(att->attname), what,
								   format_type_be(att->atttypid), format_type_be(types[i]))));
	}
}

/*
 * A value of SPI's result, columns from 1 on. Raises unless it is of the type.
 */
Datum
scd2_result_value(uint64 row, int column, Oid type, bool *isnull)
{
	scd2_check_result(SPI_tuptable->tupdesc, column - 1, 1, &type, "a result");
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull);
}
