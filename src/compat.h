/*
 * compat.h
 *		The only place that asks for the server version. PostgreSQL 15 to 18.
 */
#ifndef SCD2_COMPAT_H
#define SCD2_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "pg_scd2 supports PostgreSQL 15 to 18"
#endif

#include "access/genam.h"
#include "access/hio.h"
#include "access/nbtree.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_tablespace.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "nodes/makefuncs.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/parse_relation.h"
#include "replication/reorderbuffer.h"
#include "replication/slot.h"
#include "storage/buffile.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* 16 moved the varlena macros out of postgres.h. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* What goes along with the value of a setting, and is freed with it: 16 has a context of its own for that. */
static inline void *
scd2_guc_malloc(size_t size)
{
#if PG_VERSION_NUM >= 160000
	return guc_malloc(LOG, size);
#else
	return malloc(size);
#endif
}

/* 17 dropped ReorderBufferTupleBuf: changes hold plain tuples. */
static inline HeapTuple
scd2_change_oldtuple(ReorderBufferChange *change)
{
#if PG_VERSION_NUM >= 170000
	return change->data.tp.oldtuple;
#else
	return change->data.tp.oldtuple ? &change->data.tp.oldtuple->tuple : NULL;
#endif
}

static inline HeapTuple
scd2_change_newtuple(ReorderBufferChange *change)
{
#if PG_VERSION_NUM >= 170000
	return change->data.tp.newtuple;
#else
	return change->data.tp.newtuple ? &change->data.tp.newtuple->tuple : NULL;
#endif
}

static inline TimestampTz
scd2_txn_commit_time(ReorderBufferTXN *txn)
{
	return txn->xact_time.commit_time;
}

/* 16 brought BufFileReadExact(). */
static inline void
scd2_read_exact(BufFile *file, void *to, size_t size)
{
#if PG_VERSION_NUM >= 160000
	BufFileReadExact(file, to, size);
#else
	if (BufFileRead(file, to, size) != size)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from temporary file")));
#endif
}

/* 16 keeps what a member inherits apart from what it may become. */
static inline bool
scd2_can_set_role(Oid member, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return member_can_set_role(member, role);
#else
	return is_member_of_role(member, role);
#endif
}

/* 18 has what forming and taking rows apart needs of a column a second time. */
static inline void
scd2_attribute_changed(TupleDesc desc, int i)
{
#if PG_VERSION_NUM >= 180000
	populate_compact_attribute(desc, i);
#endif
}

/* 16 has errors saved on request. Raises 42602 for what is no name. */
static inline List *
scd2_name_list(const char *text)
{
#if PG_VERSION_NUM >= 160000
	return stringToQualifiedNameList(text, NULL);
#else
	return stringToQualifiedNameList(text);
#endif
}

/* 18 has callers say whether an invalidated slot is an error. */
static inline void
scd2_slot_acquire(const char *name)
{
#if PG_VERSION_NUM >= 180000
	ReplicationSlotAcquire(name, true, true);
#else
	ReplicationSlotAcquire(name, true);
#endif
}

/* 17 added slots that standbys can take over. */
static inline void
scd2_slot_create_ephemeral(const char *name)
{
#if PG_VERSION_NUM >= 170000
	ReplicationSlotCreate(name, true, RS_EPHEMERAL, false, true, false);
#else
	ReplicationSlotCreate(name, true, RS_EPHEMERAL, false);
#endif
}

/* Do the standbys that would take our slot over (synchronized_standby_slots) have the log up to here? */
static inline bool
scd2_standbys_have(XLogRecPtr lsn)
{
#if PG_VERSION_NUM >= 170000
	return !MyReplicationSlot->data.failover || StandbySlotsHaveCaughtup(lsn, DEBUG1);
#else
	return true;
#endif
}

/* 16 has an enum of reasons in place of 15's position. */
static inline bool
scd2_slot_is_invalid(ReplicationSlot *slot)
{
#if PG_VERSION_NUM >= 160000
	return slot->data.invalidated != RS_INVAL_NONE;
#else
	return slot->data.invalidated_at != InvalidXLogRecPtr || slot->data.restart_lsn == InvalidXLogRecPtr;
#endif
}

/*
 * 16 extends a table by as many pages as rows at hand need, but from then on by no fewer for any
 * number of rows. Without the free space map, pages that stay empty are never found again: the next
 * batch begins in the last page of the file. To be called when rows have been inserted.
 */
static inline void
scd2_extend_no_more_than_needed(BulkInsertStateData *bistate)
{
#if PG_VERSION_NUM >= 160000
	bistate->already_extended_by = 0;
#endif
}

/*
 * The executor looks up checks and expressions of a relation through the range table: 16 added
 * permission infos, 18 unpruned relids.
 */
static inline void
scd2_init_range_table(EState *estate, Relation rel, ResultRelInfo *rri)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(rel);
	rte->relkind = rel->rd_rel->relkind;
	rte->rellockmode = RowExclusiveLock;
#if PG_VERSION_NUM >= 180000
	{
		List	   *perms = NIL;

		addRTEPermissionInfo(&perms, rte);
		ExecInitRangeTable(estate, list_make1(rte), perms, bms_make_singleton(1));
	}
#elif PG_VERSION_NUM >= 160000
	{
		List	   *perms = NIL;

		addRTEPermissionInfo(&perms, rte);
		ExecInitRangeTable(estate, list_make1(rte), perms);
	}
#else
	ExecInitRangeTable(estate, list_make1(rte));
#endif
	estate->es_opened_result_relations = lappend(estate->es_opened_result_relations, rri);
}

/* 16 added onlySummarizing. */
static inline List *
scd2_insert_index_tuples(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL, false);
#else
	return ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL);
#endif
}

/*
 * A constraint that need not be checked against the rows that are there. 18 has ones that are not
 * enforced.
 */
static inline void
scd2_constraint_holds(Constraint *constraint)
{
	constraint->initially_valid = true;
#if PG_VERSION_NUM >= 180000
	constraint->is_enforced = true;
#endif
}

/* 18 can be asked for deferrable ones too. */
static inline Oid
scd2_primary_key_index(Relation rel)
{
#if PG_VERSION_NUM >= 180000
	return RelationGetPrimaryKeyIndex(rel, false);
#else
	return RelationGetPrimaryKeyIndex(rel);
#endif
}

/* The last argument of ExecutorRun(), which 18 dropped. */
#if PG_VERSION_NUM >= 180000
#define SCD2_EXECUTE_ONCE_PARAM
#define SCD2_EXECUTE_ONCE_ARG
#else
#define SCD2_EXECUTE_ONCE_PARAM , bool execute_once
#define SCD2_EXECUTE_ONCE_ARG , execute_once
#endif

/* Before 16 the callback is declared without parameters, which C23 takes for none. */
#if PG_VERSION_NUM >= 160000
#define scd2_raw_expression_walker(walker) (walker)
#else
#define scd2_raw_expression_walker(walker) ((bool (*)())(void *) (walker))
#endif

/* 18 counts index searches. */
static inline IndexScanDesc
scd2_index_beginscan(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/*
 * To the leaf page where what is above a key would begin, which is locked; invalid: the index is
 * empty. 16 needs the table too; 17 knows no snapshots any more that can be too old.
 */
static inline Buffer
scd2_btree_descend(Relation heap, Relation index, BTScanInsert key, Snapshot snapshot)
{
	Buffer		leaf;

#if PG_VERSION_NUM >= 170000
	_bt_freestack(_bt_search(index, heap, key, &leaf, BT_READ));
#elif PG_VERSION_NUM >= 160000
	_bt_freestack(_bt_search(index, heap, key, &leaf, BT_READ, snapshot));
#else
	_bt_freestack(_bt_search(index, key, &leaf, BT_READ, snapshot));
#endif
	return leaf;
}

static inline void
scd2_test_for_old_snapshot(Snapshot snapshot, Relation rel, Page page)
{
#if PG_VERSION_NUM < 170000
	TestForOldSnapshot(snapshot, rel, page);
#endif
}

/* 16 renamed the file of a relation. */
static inline Oid
scd2_relation_storage(Relation rel)
{
#if PG_VERSION_NUM >= 160000
	return rel->rd_locator.relNumber;
#else
	return rel->rd_node.relNode;
#endif
}

/* Pins the buffer if it (still) has the page. */
static inline bool
scd2_read_recent_buffer(Relation rel, BlockNumber block, Buffer buffer)
{
#if PG_VERSION_NUM >= 160000
	return ReadRecentBuffer(rel->rd_locator, MAIN_FORKNUM, block, buffer);
#else
	return ReadRecentBuffer(rel->rd_node, MAIN_FORKNUM, block, buffer);
#endif
}

/* 16 has one ownership check for all kinds of object. */
static inline bool
scd2_owns_database(Oid dboid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, dboid, GetUserId());
#else
	return pg_database_ownercheck(dboid, GetUserId());
#endif
}

static inline bool
scd2_may_use_schema(Oid schema, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(NamespaceRelationId, schema, role, ACL_USAGE) == ACLCHECK_OK;
#else
	return pg_namespace_aclcheck(schema, role, ACL_USAGE) == ACLCHECK_OK;
#endif
}

static inline bool
scd2_may_create_in_tablespace(Oid tablespace)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(TableSpaceRelationId, tablespace, GetUserId(), ACL_CREATE) == ACLCHECK_OK;
#else
	return pg_tablespace_aclcheck(tablespace, GetUserId(), ACL_CREATE) == ACLCHECK_OK;
#endif
}

/* Updates a row and its indexes. 16 tells apart which indexes need the new row. */
static inline void
scd2_update_tuple(ResultRelInfo *rri, ItemPointer tid, TupleTableSlot *slot, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes indexes;

	simple_table_tuple_update(rri->ri_RelationDesc, tid, slot, GetActiveSnapshot(), &indexes);
	if (rri->ri_NumIndices > 0 && indexes != TU_None)
		list_free(ExecInsertIndexTuples(rri, slot, estate, true, false, NULL, NIL, indexes == TU_Summarizing));
#else
	bool		indexes;

	simple_table_tuple_update(rri->ri_RelationDesc, tid, slot, GetActiveSnapshot(), &indexes);
	if (rri->ri_NumIndices > 0 && indexes)
		list_free(ExecInsertIndexTuples(rri, slot, estate, true, false, NULL, NIL));
#endif
}

/* Is a column never NULL? 18 has NOT NULL constraints that are not valid yet. */
static inline bool
scd2_is_never_null(TupleDesc desc, AttrNumber attnum)
{
#if PG_VERSION_NUM >= 180000
	return TupleDescCompactAttr(desc, attnum - 1)->attnullability == ATTNULLABLE_VALID;
#else
	return TupleDescAttr(desc, attnum - 1)->attnotnull;
#endif
}

/* 18 knows the WAL writer by its number. */
static inline void
scd2_nudge_wal_writer(void)
{
#if PG_VERSION_NUM >= 180000
	ProcNumber	writer = ProcGlobal->walwriterProc;

	if (writer != INVALID_PROC_NUMBER)
		SetLatch(&GetPGProcByNumber(writer)->procLatch);
#else
	if (ProcGlobal->walwriterLatch)
		SetLatch(ProcGlobal->walwriterLatch);
#endif
}

#endif							/* SCD2_COMPAT_H */
