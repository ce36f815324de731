/*
 * marks.h
 *		Which writes are marked as nothing to capture.
 */
#ifndef SCD2_WORKER_MARKS_H
#define SCD2_WORKER_MARKS_H

#include "nodes/nodes.h"

extern void scd2_marks_init(void);

/*
 * Marks what this process writes from now on as nothing to capture (origin DoNotReplicateId), or no
 * longer. Reset at transaction end by the caller.
 */
extern void scd2_mark_writes(bool mark);

/*
 * The relations besides our catalogs that this process writes with a mark: from now on these two
 * (either may be invalid).
 */
extern void scd2_mark_as_own(Oid target, Oid memory);

/* Is a relation being written by this worker itself, rather than by code that runs in it? To be asked in a trigger. */
extern bool scd2_writes_itself(Oid relid);

/* For the utility hook, before each statement. */
extern void scd2_utility_statement(const Node *stmt);

#endif							/* SCD2_WORKER_MARKS_H */
