/*
 * struct.c
 *		struct(a, b) and named_struct('x', a, 'y', b) as a sequence.
 *
 * PostgreSQL has no such functions: they are taken apart here, when a flow is declared, and become
 * ROW(a, b) of a composite type that is made for the target. The parser says whether an expression
 * is one of them and what its fields are called; the scanner where each field's text begins and
 * ends.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/keywords.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "parser/parser.h"
#include "parser/scanner.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "compat.h"
#include "flow/check.h"

PG_FUNCTION_INFO_V1(scd2_struct_fields);

static bool
is_call_of(const FuncCall *call, const char *name)
{
	return list_length(call->funcname) == 1 && strcmp(strVal(linitial(call->funcname)), name) == 0;
}

/*
 * The texts of the arguments of a call that is the whole expression. NULL: it begins or ends with
 * something else.
 */
static List *
argument_texts(const char *expression)
{
	core_yy_extra_type extra;
	core_yyscan_t scanner = scanner_init(expression, &extra, &ScanKeywords, ScanKeywordTokens);
	core_YYSTYPE value;
	YYLTYPE		at;
	List	   *texts = NIL;
	int			depth = 0;
	int			begin = 0;
	int			n = 0;
	int			token;

	while ((token = core_yylex(&value, &at, scanner)) != 0)
	{
		if ((n == 0 && token == '(') || (n > 0 && depth == 0 && (token != '(' || texts != NIL)))
			return NIL;
		if (depth == 1 && (token == ',' || token == ')'))
		{
			texts = lappend(texts, pnstrdup(expression + begin, at - begin));
			begin = at + 1;
		}
		if (token == '(' || token == '[')
			depth++;
		else if (token == ')' || token == ']')
			depth--;
		if (n++ == 1)
			begin = at + 1;
	}
	scanner_finish(scanner);
	return texts;
}

static char *
field_name(Node *argument, int n)
{
	ColumnRef  *column = (ColumnRef *) argument;

	if (IsA(argument, ColumnRef) && IsA(llast(column->fields), String))
		return strVal(llast(column->fields));
	return psprintf("col%d", n);
}

static char *
given_name(Node *argument)
{
	A_Const    *constant = (A_Const *) argument;

	if (!IsA(argument, A_Const) || constant->isnull || !IsA(&constant->val, String))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("names of fields in named_struct must be string constants"),
						errhint("named_struct('x', a, 'y', b)")));
	return strVal(&constant->val);
}

/*
 * scd2_internal.struct_fields(expression text, OUT names name[], OUT expressions text[]); NULLs for
 * other expressions.
 */
Datum
scd2_struct_fields(PG_FUNCTION_ARGS)
{
	char	   *expression = text_to_cstring(PG_GETARG_TEXT_PP(0));
	FuncCall   *call = (FuncCall *) scd2_parse_expression(expression, "sequence_by");
	bool		named = IsA(call, FuncCall) && is_call_of(call, "named_struct");
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {true, true};
	List	   *texts;
	Datum	   *names;
	Datum	   *fields;
	int			n = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!named && !(IsA(call, FuncCall) && is_call_of(call, "struct")))
		PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
	texts = argument_texts(expression);
	if (call->args == NIL || list_length(texts) != list_length(call->args) || (named && list_length(texts) % 2 != 0))
		ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
						errmsg("sequence_by is not a struct of fields"),
						errhint("struct(a, b) or named_struct('x', a, 'y', b), and nothing around it")));
	names = palloc(list_length(texts) * sizeof(Datum));
	fields = palloc(list_length(texts) * sizeof(Datum));
	for (int i = 0; i < list_length(texts); i += named ? 2 : 1)
	{
		names[n] = DirectFunctionCall1(namein, CStringGetDatum(named ? given_name(list_nth(call->args, i)) : field_name(list_nth(call->args, i), n + 1)));
		fields[n++] = CStringGetTextDatum(list_nth(texts, named ? i + 1 : i));
	}
	nulls[0] = nulls[1] = false;
	values[0] = PointerGetDatum(construct_array(names, n, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR));
	values[1] = PointerGetDatum(construct_array(fields, n, TEXTOID, -1, false, TYPALIGN_INT));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
