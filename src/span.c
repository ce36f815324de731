/*
 * span.c
 *		Lengths of time that users give: how long rows are kept, how often a source is read, how long to wait.
 *
 * They are added to and subtracted from the time of day, and turned into microseconds, in workers and
 * views that look at many feeds and flows. So each is from 0 to 1000 years, which no such sum
 * overflows, also in its single fields: '200000 years -73000000 days' is short, but now() less the
 * first of its fields is no time. (What is infinite has fields at the ends of their types.)
 *
 * Who is given one refuses others: scd2_internal.check_span(), the setting, scd2.sync(). Who reads one
 * that is stored takes it through scd2_internal.bounded() nevertheless: an older version or a dump may
 * have stored what is refused today, and one feed's or flow's figure never ends the look at all.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "span.h"

#define LONGEST_MONTHS	(1000 * MONTHS_PER_YEAR)
#define LONGEST_DAYS	(1000 * 366)
#define LONGEST_TIME	(LONGEST_DAYS * USECS_PER_DAY)
#define LONGEST			((int64) LONGEST_MONTHS * DAYS_PER_MONTH * USECS_PER_DAY)

PG_FUNCTION_INFO_V1(scd2_bounded);

/* As the server compares intervals, about: a double takes what an integer does not. */
static double
about(const Interval *span)
{
	return ((double) span->month * DAYS_PER_MONTH + span->day) * USECS_PER_DAY + span->time;
}

static bool
is_within(int64 field, int64 longest)
{
	return field >= -longest && field <= longest;
}

bool
scd2_span_is_bounded(const Interval *span)
{
	int64		length;

	if (!is_within(span->month, LONGEST_MONTHS) || !is_within(span->day, LONGEST_DAYS) || !is_within(span->time, LONGEST_TIME))
		return false;
	length = ((int64) span->month * DAYS_PER_MONTH + span->day) * USECS_PER_DAY + span->time;
	return length >= 0 && length <= LONGEST;
}

/*
 * scd2_internal.bounded(span interval): itself if it is within the bounds, else the nearest that is.
 */
Datum
scd2_bounded(PG_FUNCTION_ARGS)
{
	Interval   *span = PG_GETARG_INTERVAL_P(0);
	Interval   *bounded;

	if (scd2_span_is_bounded(span))
		PG_RETURN_INTERVAL_P(span);
	bounded = palloc0(sizeof(Interval));
	if (about(span) >= (double) LONGEST)
		bounded->month = LONGEST_MONTHS;
	else if (about(span) > 0)
		bounded->time = (TimeOffset) about(span);
	PG_RETURN_INTERVAL_P(bounded);
}
