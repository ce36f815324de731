/*
 * statements.h
 *		The SQL of a flow.
 */
#ifndef SCD2_FLOW_STATEMENTS_H
#define SCD2_FLOW_STATEMENTS_H

#include "access/stratnum.h"
#include "lib/stringinfo.h"

#include "flow/flow.h"

/*
 * Columns of what READ statements return, before the flow's columns; after them come ctid and
 * tableoid, with READ_SEEN also the start.
 */
enum
{
	SCD2_EVENT_TYPE,
	SCD2_EVENT_VERSION,
	SCD2_EVENT_TIMESTAMP,
	SCD2_EVENT_ORDINAL,
	SCD2_EVENT_COLUMNS
};

/* The same of flows over event tables. */
enum
{
	SCD2_ARRIVAL_VERSION,		/* NULL: the row was there before the flow */
	SCD2_ARRIVAL_TIMESTAMP,
	SCD2_ARRIVAL_ORDINAL,
	SCD2_ARRIVAL_SEQUENCE,
	SCD2_ARRIVAL_DELETE,
	SCD2_ARRIVAL_TRUNCATE,
	SCD2_ARRIVAL_IS_END,		/* the sequence is where the row ends */
	SCD2_ARRIVAL_OTHER_END,		/* of a row with an end, NULL: none; if this is its end, the beginning */
	SCD2_ARRIVAL_MOVES,			/* the sequence, if it can move the horizon */
	SCD2_ARRIVAL_HORIZON,		/* when the row came; NULL: none */
	SCD2_ARRIVAL_COLUMNS		/* then, if invalid events are kept, NULL or the event as JSON; then, of a feed, ctid and tableoid */
};

#define SCD2_MOST_ARGUMENTS	6

extern char *scd2_statement_sql(Scd2Flow *flow, Scd2Statement which, Oid *argtypes, int *nargs);
extern bool scd2_can_be_too_late(Scd2Flow *flow);
extern bool scd2_keeps_events(Scd2Flow *flow);
extern bool scd2_sequence_has_parts(Scd2Flow *flow);
extern void scd2_append_comparison(StringInfo sql, const char *a, Oid operator_oid, const char *b);
extern Oid	scd2_sequence_operator(Scd2Flow *flow, StrategyNumber strategy);
extern void scd2_append_rows(StringInfo sql, Scd2Flow *flow, const char *rows);
extern char *scd2_source_now(Scd2Flow *flow);
extern char *scd2_source_then(Scd2Flow *flow);
extern void scd2_append_feed(StringInfo sql, Scd2Flow *flow, Scd2Statement which);
extern void scd2_append_seen(StringInfo sql, Scd2Flow *flow, int n);
extern char *scd2_copy_sql(Scd2Flow *flow, bool insert);

#endif							/* SCD2_FLOW_STATEMENTS_H */
