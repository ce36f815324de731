/*
 * owners_code.c
 *		Code of a feed's owner that runs in the capture worker.
 *
 * Nothing of the kind may stand on a feed (32_feed_bare.sql). But it can be there from version 0.1.0, or
 * from a restore: checks, indexes with expressions and predicates or of types that call functions. They
 * run where rows are written, in the one process that captures the changes of everybody: as the owner
 * (identity.h), and only what is in C or a superuser's (worker/code.c). They can still raise errors, and
 * take for ever. Neither may stop the capture of other tables:
 *
 *   an error while they can run is the feed's, which gets a gap; unless it is of a kind that passes (no memory, no disk) and the server itself says so
 *   they have a minute for a thousand rows, or for a change of columns; then they are cancelled
 *
 * Of feeds without such code, internal errors (XX) and cancellations (57) are not the feed's: the
 * worker dies and tries again, so that a fault of ours never hides behind a gap. Lack of resources
 * and locks (53, 40, 55) pass.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

#include "pg_scd2.h"
#include "feed/owners_code.h"

static bool running = false;

/* Others than btree, hash and BRIN call functions of types (a range's subtype_diff), with their pages locked. */
static bool
method_has_code(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	Oid			method = HeapTupleIsValid(tuple) ? ((Form_pg_class) GETSTRUCT(tuple))->relam : BTREE_AM_OID;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return method != BTREE_AM_OID && method != HASH_AM_OID && method != BRIN_AM_OID;
}

static bool
index_has_code(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	bool		has;

	if (!HeapTupleIsValid(tuple))
		return false;
	has = method_has_code(index) || !heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) || !heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
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

/*
 * Procedural languages have their own messages. They raise whatever SQLSTATE a function asks for; the
 * server says the truth. (Not to be seen from the text: that is in any language.)
 */
static bool
is_raised_at_will(const ErrorData *error)
{
	return error->domain != NULL && strncmp(error->domain, "postgres", strlen("postgres")) != 0;
}

bool
scd2_feed_error_is_permanent(ErrorData *error)
{
	bool		is_owners = running && !(lacks_resources(error->sqlerrcode) && !is_raised_at_will(error));

	scd2_end_owners_code();
	if (is_owners && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		error->message = psprintf("a check or index expression of the feed was cancelled: %s", error->message);
	return is_owners || !may_pass(error->sqlerrcode);
}
