/*
 * owners_code.c
 *		Code of a feed's owner that runs in the capture worker.
 *
 * An owner can hang checks, and indexes with expressions and predicates, on his feed. They run
 * where rows are written, in the one process that captures the changes of everybody. They cannot do
 * more than he can (identity.h); but they can raise any error, one that looks like a fault of ours
 * or a full disk too, and they can take for ever. Neither may stop the capture of other tables:
 *
 *   an error while they can run is the feed's, which gets a gap; unless it is of a kind that passes (no memory, no disk) and does not come from within a function
 *   they have a minute for a thousand rows, or for a change of columns; then they are cancelled
 *
 * Of feeds without such code, internal errors (XX) and cancellations (57) are not the feed's: the
 * worker dies and tries again, so that a fault of ours never hides behind a gap. Lack of resources
 * and locks (53, 40, 55) pass.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

#include "pg_scd2.h"
#include "feed/owners_code.h"

static bool running = false;

static bool
index_has_code(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	bool		has;

	if (!HeapTupleIsValid(tuple))
		return false;
	has = !heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) || !heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
	ReleaseSysCache(tuple);
	return has;
}

static bool
relation_has_code(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	bool		has = rel->rd_att->constr != NULL && rel->rd_att->constr->num_check > 0;
	ListCell   *lc;

	foreach(lc, indexes)
		has = has || index_has_code(lfirst_oid(lc));
	list_free(indexes);
	return has;
}

static bool
has_code(Relation rel)
{
	List	   *partitions;
	ListCell   *lc;
	bool		has = relation_has_code(rel);

	if (has || rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return has;
	partitions = find_inheritance_children(RelationGetRelid(rel), AccessShareLock);
	foreach(lc, partitions)
	{
		Relation	partition = RelationIdGetRelation(lfirst_oid(lc));

		if (partition == NULL)
			continue;
		has = has || relation_has_code(partition);
		RelationClose(partition);
	}
	list_free(partitions);
	return has;
}

void
scd2_begin_owners_code(Relation rel)
{
	running = has_code(rel);
	scd2_owners_code_gets_on();
}

void
scd2_owners_code_gets_on(void)
{
	if (running)
		enable_timeout_after(STATEMENT_TIMEOUT, scd2_debug_owners_code_limit);
}

void
scd2_end_owners_code(void)
{
	if (!running)
		return;
	running = false;
	disable_timeout(STATEMENT_TIMEOUT, true);
	if (get_timeout_indicator(STATEMENT_TIMEOUT, true))
		QueryCancelPending = false; /* it came too late */
}

/* Of kinds that pass, or are a fault of ours? */
static bool
may_pass(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_INTERNAL_ERROR:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
		case ERRCODE_SYSTEM_ERROR:
			return true;
		default:
			return false;
	}
}

static bool
lacks_resources(int sqlerrcode)
{
	int			category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return category == ERRCODE_INSUFFICIENT_RESOURCES || category == ERRCODE_SYSTEM_ERROR;
}

/* Those add a line of context; ours do not have the word. */
static bool
is_from_function(const ErrorData *error)
{
	return error->context != NULL && strstr(error->context, "function") != NULL;
}

bool
scd2_feed_error_is_permanent(ErrorData *error)
{
	bool		is_owners = running && !(lacks_resources(error->sqlerrcode) && !is_from_function(error));

	scd2_end_owners_code();
	if (is_owners && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		error->message = psprintf("a check or index expression of the feed was cancelled: %s", error->message);
	return is_owners || !may_pass(error->sqlerrcode);
}
