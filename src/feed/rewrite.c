/*
 * rewrite.c
 *		Which columns an ALTER TABLE that rewrites its table gives values that the log does not show.
 *
 * The server's event trigger says that and why a table is rewritten, not for which columns; the
 * statement does. A USING that only names the type is none: the server would do the same without it
 * (layout.c knows which conversions can be followed).
 *
 * A USING that gives other values of the type that the column has is a way of writing. Which these are has to
 * be known before the statement runs: afterwards nothing tells the former type.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "feed/rewrite.h"
#include "identity.h"

PG_FUNCTION_INFO_V1(scd2_on_table_rewrite);

/* Does a cast to a length of this type cut what is longer? */
static bool
cuts_silently(const TypeName *type)
{
	static const char *const names[] = {"varchar", "bpchar", "bit", "varbit"};
	const char *name = strVal(llast(type->names));

	for (int i = 0; i < lengthof(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/*
 * Is "USING column::type" all there is? A length cuts silently where the server, converting the column
 * without USING, raises an error; another precision than the column's rounds.
 */
static bool
is_plain_cast(const AlterTableCmd *cmd, Node *expression)
{
	const TypeName *wanted = ((ColumnDef *) cmd->def)->typeName;
	const TypeCast *cast = (TypeCast *) expression;
	ColumnRef  *column;

	if (!IsA(expression, TypeCast) || !IsA(cast->arg, ColumnRef))
		return false;
	column = (ColumnRef *) cast->arg;
	if (cast->typeName->typmods != NIL && cuts_silently(cast->typeName))
		return false;
	return list_length(column->fields) == 1 && IsA(linitial(column->fields), String) &&
		strcmp(strVal(linitial(column->fields)), cmd->name) == 0 &&
		equal(cast->typeName->names, wanted->names) &&
		(cast->typeName->typmods == NIL || equal(cast->typeName->typmods, wanted->typmods));
}

/* The column of a command whose values are given, or NULL. */
static const char *
given_column(const AlterTableCmd *cmd)
{
	ColumnDef  *def = cmd->def != NULL && IsA(cmd->def, ColumnDef) ? (ColumnDef *) cmd->def : NULL;

	if (cmd->subtype == AT_AddColumn && def != NULL)
		return def->colname;
	if (cmd->subtype == AT_AlterColumnType && def != NULL && def->raw_default != NULL && !is_plain_cast(cmd, def->raw_default))
		return cmd->name;
	return NULL;
}

static char *
given_columns(Node *statement)
{
	StringInfoData names;
	ListCell   *lc;

	if (statement == NULL || !IsA(statement, AlterTableStmt))
		return NULL;
	initStringInfo(&names);
	foreach(lc, ((AlterTableStmt *) statement)->cmds)
	{
		const char *column = given_column(lfirst_node(AlterTableCmd, lc));

		if (column != NULL)
			appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "", column);
	}
	return names.len > 0 ? names.data : NULL;
}

static char *written_columns = NULL;	/* those that the statement at hand writes; NULL: none */

static bool
keeps_type(Oid relid, const AlterTableCmd *cmd)
{
	AttrNumber	attnum = get_attnum(relid, cmd->name);
	TypeName   *wanted = ((ColumnDef *) cmd->def)->typeName;
	Oid			type;
	Oid			wanted_type;
	int32		typmod;
	int32		wanted_typmod;
	Oid			collation;

	if (attnum == InvalidAttrNumber || !OidIsValid(LookupTypeNameOid(NULL, wanted, true)))
		return false;
	get_atttypetypmodcoll(relid, attnum, &type, &typmod, &collation);
	typenameTypeIdAndMod(NULL, wanted, &wanted_type, &wanted_typmod);
	return type == wanted_type && typmod == wanted_typmod;
}

/* The relation is looked for only if there is such a column: most statements cost a comparison. */
static char *
columns_written(Node *statement)
{
	StringInfoData names = {0};
	Oid			relid = InvalidOid;
	ListCell   *lc;

	if (!IsA(statement, AlterTableStmt))
		return NULL;
	foreach(lc, ((AlterTableStmt *) statement)->cmds)
	{
		const AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype != AT_AlterColumnType || given_column(cmd) == NULL)
			continue;
		if (!OidIsValid(relid))
			relid = RangeVarGetRelid(((AlterTableStmt *) statement)->relation, NoLock, true);
		if (!OidIsValid(relid) || !keeps_type(relid, cmd))
			continue;
		if (names.data == NULL)
			initStringInfo(&names);
		appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "", cmd->name);
	}
	return names.data;
}

/* A utility statement begins. What has to be given to scd2_rewrite_end(), whether it fails or not. */
char *
scd2_rewrite_begin(Node *statement)
{
	char	   *outer = written_columns;

	written_columns = columns_written(statement);
	return outer;
}

void
scd2_rewrite_end(char *outer)
{
	written_columns = outer;
}

static void
refuse_written(Datum relid)
{
	Oid			types[] = {OIDOID, TEXTOID};
	Datum		values[] = {relid, CStringGetTextDatum(written_columns)};

	if (SPI_execute_with_args("SELECT scd2_internal.refuse_given_values($1, $2)", 2, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.refuse_given_values()");
}

/* Event trigger, table_rewrite. */
Datum
scd2_on_table_rewrite(PG_FUNCTION_ARGS)
{
	EventTriggerData *event = (EventTriggerData *) fcinfo->context;
	Oid			types[] = {OIDOID, INT4OID, TEXTOID};
	Datum		values[3];
	char	   *columns;
	Scd2Identity self;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		elog(ERROR, "scd2_on_table_rewrite: not called by an event trigger");
	columns = given_columns(event->parsetree);
	values[0] = OidFunctionCall0(F_PG_EVENT_TRIGGER_TABLE_REWRITE_OID);
	values[1] = OidFunctionCall0(F_PG_EVENT_TRIGGER_TABLE_REWRITE_REASON);
	values[2] = columns ? CStringGetTextDatum(columns) : (Datum) 0;
	scd2_become(BOOTSTRAP_SUPERUSERID, &self);
	SPI_connect();
	if (written_columns != NULL)
		refuse_written(values[0]);
	if (SPI_execute_with_args("SELECT scd2_internal.table_rewritten($1, $2, $3)", 3, types, values, columns ? "   " : "  n", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.table_rewritten()");
	SPI_finish();
	scd2_become_self_again(&self);
	return PointerGetDatum(NULL);
}
