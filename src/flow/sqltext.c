/*
 * sqltext.c
 *		Building SQL text.
 *
 * The one place that puts names and literals into SQL. Values travel as parameters.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "flow/sqltext.h"

/*
 * Appends "format", in which %I is an identifier, %L a literal, %s text that is SQL already, %d an
 * int, %% a percent sign.
 */
void
scd2_sql(StringInfo sql, const char *format, ...)
{
	va_list		args;

	va_start(args, format);
	for (const char *p = format; *p != '\0'; p++)
	{
		if (*p != '%')
		{
			appendStringInfoCharMacro(sql, *p);
			continue;
		}
		switch (*++p)
		{
			case 'I':
				appendStringInfoString(sql, quote_identifier(va_arg(args, const char *)));
				break;
			case 'L':
				appendStringInfoString(sql, quote_literal_cstr(va_arg(args, const char *)));
				break;
			case 's':
				appendStringInfoString(sql, va_arg(args, const char *));
				break;
			case 'd':
				appendStringInfo(sql, "%d", va_arg(args, int));
				break;
			case '%':
				appendStringInfoCharMacro(sql, '%');
				break;
			default:
				elog(ERROR, "unknown conversion %%%c", *p);
		}
	}
	va_end(args);
}

/*
 * A type for a cast that changes no value: without a length. ("character" is character(1), and
 * "bit" is bit(1); their names in the catalog have none.)
 */
char *
scd2_type_sql(Oid type)
{
	return format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}
