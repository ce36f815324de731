/*
 * erase.c
 *		Erasing rows, and knowing events of keys that were erased.
 *
 * What erase() (50_erase.sql) deletes is deleted as the owner of each relation, with SQL, so that
 * what hangs on it is kept right. A target can have a feed, which would get the rows that are to be
 * forgotten: so the deletes are marked as nothing to capture (marks.c). The commit of the caller's
 * transaction is not: what else it wrote is captured.
 *
 * A target of events in any order keeps a fingerprint of each erased key with the last sequence
 * that was known of it. An event of that key that is not above comes late: it is not accepted, and
 * counted as skipped. The fingerprint is a hash of the key's values, by the hash functions that go
 * with their equality, seeded with a random number that is the target's. It outlives a dump: enums,
 * which would be hashed by oids that they have in this database, are hashed as text.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "flow/erase.h"
#include "flow/marks.h"
#include "identity.h"
#include "worker/marks.h"

PG_FUNCTION_INFO_V1(scd2_erase_rows);
PG_FUNCTION_INFO_V1(scd2_key_fingerprint);

typedef struct ErasedKey
{
	uint64		fingerprint;
	Datum		upto;
} ErasedKey;

typedef struct KeyHash
{
	FmgrInfo	function;		/* hashes a value, */
	bool		as_text;		/* or makes text of it, which is hashed */
} KeyHash;

struct Scd2Erased
{
	uint64		seed;
	HTAB	   *keys;			/* of ErasedKey */
	KeyHash    *hash;			/* per key column */
};

static void
use_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* scd2_internal.erase_rows(relation oid, condition text) */
Datum
scd2_erase_rows(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), RowExclusiveLock);
	char	   *sql = psprintf("DELETE FROM %s%s AS t WHERE %s", rel->rd_rel->relkind == RELKIND_RELATION ? "ONLY " : "",
							   quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel)),
							   text_to_cstring(PG_GETARG_TEXT_PP(1)));
	Scd2Identity self;
	int64		n = 0;

	SPI_connect();
	scd2_become(rel->rd_rel->relowner, &self);
	use_setting("pg_scd2.allow_target_writes", "on");
	use_setting("row_security", "off"); /* rows that are hidden would stay: an error instead */
	scd2_mark_as_own(RelationGetRelid(rel), InvalidOid);
	scd2_mark_writes(true);
	PG_TRY();
	{
		if (SPI_execute(sql, false, 0) != SPI_OK_DELETE)
			elog(ERROR, "could not execute \"%s\"", sql);
		n = SPI_processed;
	}
	PG_FINALLY();
	{
		scd2_mark_writes(false);
		scd2_mark_as_own(InvalidOid, InvalidOid);
	}
	PG_END_TRY();
	scd2_become_self_again(&self);
	SPI_finish();
	table_close(rel, NoLock);
	PG_RETURN_INT64(n);
}

/* ---- fingerprints ---- */

static Oid
key_type(Scd2Flow *flow, int k)
{
	return TupleDescAttr(flow->store_desc[SCD2_INSERTS], flow->keys[k])->atttypid;
}

/* An enum, or made of one. */
static bool
is_of_enum(Oid type)
{
	Oid			element = get_element_type(type);

	if (!OidIsValid(element))
		element = get_range_subtype(type);
	return type_is_enum(OidIsValid(element) ? getBaseType(element) : type);
}

/* How the keys are hashed, in the current memory context; false: one has a type that cannot be. */
static bool
find_hash_functions(Scd2Flow *flow, KeyHash *hash)
{
	for (int k = 0; k < flow->nkeys; k++)
	{
		Oid			proc = lookup_type_cache(key_type(flow, k), TYPECACHE_HASH_EXTENDED_PROC)->hash_extended_proc;
		bool		varlena;

		hash[k].as_text = is_of_enum(key_type(flow, k));
		if (hash[k].as_text)
			getTypeOutputInfo(key_type(flow, k), &proc, &varlena);
		if (!OidIsValid(proc))
			return false;
		fmgr_info_cxt(proc, &hash[k].function, CurrentMemoryContext);
	}
	return flow->nkeys > 0;
}

static uint64
hash_value(KeyHash *hash, Oid collation, Datum value, uint64 seed)
{
	uint64		result;
	char	   *text;

	if (!hash->as_text)
		return DatumGetUInt64(FunctionCall2Coll(&hash->function, collation, value, UInt64GetDatum(seed)));
	text = OutputFunctionCall(&hash->function, value);
	result = hash_bytes_extended((unsigned char *) text, strlen(text), seed);
	pfree(text);
	return result;
}

/* "key" in the order of the flow's keys. */
static uint64
fingerprint(Scd2Flow *flow, KeyHash *hash, uint64 seed, const Datum *key)
{
	uint64		all = seed;

	for (int k = 0; k < flow->nkeys; k++)
		all = hash_combine64(all, hash_value(&hash[k], flow->key_collation[k], key[k], seed));
	return all;
}

/* Text of a column in an object of texts. */
static char *
text_of(Jsonb *object, const char *name)
{
	JsonbValue	value;

	if (getKeyJsonValueFromContainer(&object->root, name, strlen(name), &value) == NULL || value.type != jbvString)
		elog(ERROR, "key has no text for column \"%s\"", name);
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/* As the target's owner, whose types they are. */
static Datum *
read_key(Scd2Flow *flow, Jsonb *object)
{
	Datum	   *key = palloc(flow->nkeys * sizeof(Datum));

	for (int k = 0; k < flow->nkeys; k++)
	{
		Oid			input;
		Oid			ioparam;

		getTypeInputInfo(key_type(flow, k), &input, &ioparam);
		key[k] = OidInputFunctionCall(input, text_of(object, flow->columns[flow->keys[k]]), ioparam,
									  TupleDescAttr(flow->store_desc[SCD2_INSERTS], flow->keys[k])->atttypmod);
	}
	return key;
}

/* scd2_internal.key_fingerprint(flow_id integer, key jsonb, seed bigint) */
Datum
scd2_key_fingerprint(PG_FUNCTION_ARGS)
{
	Scd2Flow   *flow;
	Relation	target;
	KeyHash    *hash;
	Scd2Identity self;
	bool		hashes;
	uint64		result = 0;

	SPI_connect();
	flow = scd2_flow_load(PG_GETARG_INT32(0));
	hash = palloc0((flow->nkeys + 1) * sizeof(KeyHash));
	target = table_open(flow->target, AccessShareLock);
	scd2_become(flow->author, &self);
	hashes = find_hash_functions(flow, hash);
	if (hashes)
		result = fingerprint(flow, hash, (uint64) PG_GETARG_INT64(2), read_key(flow, PG_GETARG_JSONB_P(1)));
	scd2_become_self_again(&self);
	table_close(target, NoLock);
	scd2_flow_free(flow);
	SPI_finish();
	if (!hashes)
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) result);
}

#define READ_ERASED "SELECT fingerprint, seed, sequence FROM scd2_internal.erased_key WHERE target_relid = $1"

static Datum
int64_column(uint64 row, int column)
{
	bool		isnull;

	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, &isnull);
}

/*
 * What was erased from the target of a flow that is being loaded, in its memory; NULL: nothing.
 * Within SPI.
 */
Scd2Erased *
scd2_erased_load(Scd2Flow *flow)
{
	Oid			types[] = {OIDOID};
	Datum		args[] = {ObjectIdGetDatum(flow->target)};
	HASHCTL		ctl = {.keysize = sizeof(uint64), .entrysize = sizeof(ErasedKey), .hcxt = flow->cxt};
	Scd2Erased *erased;

	if (flow->input != SCD2_EVENTS)
		return NULL;
	if (SPI_execute_with_args(READ_ERASED, 1, types, args, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.erased_key");
	MemoryContextSwitchTo(flow->cxt);	/* SPI left its own */
	if (SPI_processed == 0)
		return NULL;
	erased = palloc0(sizeof(Scd2Erased));
	erased->hash = palloc0(flow->nkeys * sizeof(KeyHash));
	erased->keys = hash_create("pg_scd2 erased keys", SPI_processed, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	if (!find_hash_functions(flow, erased->hash))
		elog(ERROR, "keys of flow \"%s\" cannot be hashed", flow->name);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		uint64		print = DatumGetUInt64(int64_column(i, 1));
		ErasedKey  *entry = hash_search(erased->keys, &print, HASH_ENTER, NULL);

		erased->seed = DatumGetUInt64(int64_column(i, 2));
		entry->upto = scd2_sequence_value(flow, SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 3));
	}
	return erased;
}

/*
 * Is an event of a key that was erased, and not above what was known of it then? "columns": those
 * of the flow.
 */
bool
scd2_erased_has(Scd2Flow *flow, const Datum *columns, Datum sequence)
{
	Scd2Erased *erased = flow->erased;
	Datum	   *key = palloc(flow->nkeys * sizeof(Datum));
	ErasedKey  *entry;
	uint64		print;

	for (int k = 0; k < flow->nkeys; k++)
		key[k] = columns[flow->keys[k]];
	print = fingerprint(flow, erased->hash, erased->seed, key);
	pfree(key);
	entry = hash_search(erased->keys, &print, HASH_FIND, NULL);
	return entry != NULL &&
		DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation, sequence, entry->upto)) <= 0;
}
