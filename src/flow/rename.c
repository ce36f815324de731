/*
 * rename.c
 *		Columns that an expression names, under their new names.
 *
 * The parser says what in an expression is a column (no function, type, field or constant of the
 * same spelling is), and where; the scanner where the name ends. The rest of the text stays as it
 * was given.
 *
 * There are no subqueries in expressions of flows, so a column is the source's: alone, or after the
 * alias that the source has.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/keywords.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/scanner.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "compat.h"
#include "flow/check.h"

PG_FUNCTION_INFO_V1(scd2_rename_columns);

typedef struct Renaming
{
	const char *alias;
	Datum	   *old_names;
	Datum	   *new_names;
	int			n;
	List	   *places;			/* of Place */
} Renaming;

/* A name that changes. */
typedef struct Place
{
	int			location;		/* of the reference in the text */
	int			token;			/* of the name: so many tokens behind it */
	const char *name;
} Place;

static const char *
new_name(const Renaming *renaming, Node *field)
{
	if (!IsA(field, String))
		return NULL;
	for (int i = 0; i < renaming->n; i++)
		if (strcmp(strVal(field), NameStr(*DatumGetName(renaming->old_names[i]))) == 0)
			return NameStr(*DatumGetName(renaming->new_names[i]));
	return NULL;
}

static bool
find_columns(Node *node, void *arg)
{
	Renaming   *renaming = arg;
	ColumnRef  *column = (ColumnRef *) node;
	bool		qualified;
	const char *name;
	Place	   *place;

	if (node == NULL)
		return false;
	if (!IsA(node, ColumnRef))
		return raw_expression_tree_walker(node, scd2_raw_expression_walker(find_columns), arg);
	qualified = list_length(column->fields) > 1;
	if (qualified && (!IsA(linitial(column->fields), String) || strcmp(strVal(linitial(column->fields)), renaming->alias) != 0))
		return false;
	name = new_name(renaming, list_nth(column->fields, qualified ? 1 : 0));
	if (name == NULL)
		return false;
	place = palloc(sizeof(Place));
	place->location = column->location;
	place->token = qualified ? 2 : 0;	/* the alias and the dot */
	place->name = name;
	renaming->places = lappend(renaming->places, place);
	return false;
}

static Place *
place_at(List *places, int location)
{
	ListCell   *lc;

	foreach(lc, places)
		if (((Place *) lfirst(lc))->location == location)
			return lfirst(lc);
	return NULL;
}

/* The text with the new names. The scanner ends each token with a zero in its own copy of it. */
static char *
replace_names(const char *expression, List *places)
{
	core_yy_extra_type extra;
	core_yyscan_t scanner = scanner_init(expression, &extra, &ScanKeywords, ScanKeywordTokens);
	core_YYSTYPE value;
	YYLTYPE		at;
	StringInfoData result;
	Place	   *place = NULL;
	int			left = 0;		/* tokens up to the name */
	int			copied = 0;

	initStringInfo(&result);
	while (core_yylex(&value, &at, scanner) != 0)
	{
		if (place == NULL)
		{
			place = place_at(places, at);
			left = place ? place->token : 0;
		}
		else
			left--;
		if (place == NULL || left > 0)
			continue;
		if (pg_strncasecmp(expression + at, "U&\"", 3) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot rename a column that is written by its code points: %s", expression)));
		appendBinaryStringInfo(&result, expression + copied, at - copied);
		appendStringInfoString(&result, quote_identifier(place->name));
		copied = at + strlen(extra.scanbuf + at);
		place = NULL;
	}
	appendStringInfoString(&result, expression + copied);
	scanner_finish(scanner);
	return result.data;
}

/*
 * scd2_internal.rename_columns(expression text, alias name, old_names name[], new_names name[]): the
 * expression after columns of its relation, called "alias" in it, were renamed, all at once.
 */
Datum
scd2_rename_columns(PG_FUNCTION_ARGS)
{
	char	   *expression = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Renaming	renaming = {.alias = NameStr(*PG_GETARG_NAME(1))};
	int			n;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &renaming.old_names, NULL, &renaming.n);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(3), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &renaming.new_names, NULL, &n);
	if (n != renaming.n)
		elog(ERROR, "%d new names for %d columns", n, renaming.n);
	(void) find_columns(scd2_parse_expression(expression, "expression"), &renaming);
	PG_RETURN_TEXT_P(cstring_to_text(replace_names(expression, renaming.places)));
}
