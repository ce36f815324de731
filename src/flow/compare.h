/*
 * compare.h
 *		What a snapshot has that its target has not, and the other way round.
 */
#ifndef SCD2_FLOW_COMPARE_H
#define SCD2_FLOW_COMPARE_H

#include "utils/tuplesort.h"

#include "flow/work.h"

/*
 * Columns of a difference, after those of the flow (of a key that the snapshot lacks, only the keys
 * are there).
 */
enum
{
	SCD2_DIFFERENCE_HERE,		/* the snapshot has the key */
	SCD2_DIFFERENCE_THERE,		/* the target had it just before */
	SCD2_DIFFERENCE_LOOK,		/* whether anything differs takes a closer look */
	SCD2_DIFFERENCE_END
};

typedef struct Scd2Comparison
{
	Scd2Work   *work;
	Datum		version;
	bool		everything;		/* each row of the snapshot is a difference */

	/* What came of it. */
	int64		rows;			/* of the snapshot */
	int64		both;			/* rows whose key the target had */
	int64		unchanged;		/* of those, no differences */
	int64		absent;			/* keys of the target, in scope, that the snapshot lacks */
	Tuplesortstate *differences;	/* sorted by key, random access */
	TupleDesc	desc;			/* of them */
} Scd2Comparison;

extern void scd2_compare(Scd2Comparison *comparison);
extern char *scd2_key_text(Scd2Flow *flow, const Datum *columns, const bool *isnull);

#endif							/* SCD2_FLOW_COMPARE_H */
