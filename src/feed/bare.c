/*
 * bare.c
 *		What may stand on relations that workers write as superusers.
 *
 * Feeds have no code of their owners: what may stand on them is a short list, which is written down
 * once, in scd2_internal.unfit_on() (32_feed_bare.sql). Here statements are caught that put something
 * else there.
 *
 * Event triggers would not do: a superuser can switch them off (event_triggers), and a transaction that
 * began before the feed was enabled does not see its definition. The server's object access hook is on every path
 * to the catalogs. It only notes what came or was altered, for the new rows cannot be looked at yet;
 * when the statement is done, or at the latest before the transaction commits, one function looks at
 * all that was noted (scd2_internal.refuse_unfit()). It sees what is committed by then, whatever the
 * transaction's isolation.
 *
 * What a column was before it is altered is known only while that happens: so that its name or type
 * changed is found out at once.
 *
 * Our own statements pass: they run with pg_scd2.own_ddl on, which superusers alone can set. What they
 * make comes from the feed as it is, or goes again before they end. Code of users that such a statement
 * runs (index expressions of a table that is rewritten) meets the setting, but its statements are not
 * ours: the setting holds for statements as deep as those among which it was given, and for no deeper
 * ones.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "parser/parse_func.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "pg_scd2.h"
#include "compat.h"
#include "feed/bare.h"
#include "identity.h"

#define TOUCHED_CREATED	'c'
#define TOUCHED_ALTERED	'a'
#define TOUCHED_CHANGED	'n'		/* a column that has another name or type now */
#define TOUCHED_PARENT	'p'		/* a partition came or went */

typedef struct Touched
{
	Oid			class;
	Oid			object;
	int32		sub;
	char		how;
} Touched;

static object_access_hook_type prev_object_access_hook = NULL;
static int	depth = 0;			/* utility statements that run, one within the other */
static int	given_at = 0;		/* depth at which pg_scd2.own_ddl was set to what it is */
static bool own_statement = false;	/* is the innermost of them ours? */
static List *touched = NIL;		/* of Touched, in TopTransactionContext */

/* Check hook of pg_scd2.own_ddl: the depth goes with the value, also when an earlier one comes back. */
bool
scd2_check_own_ddl(bool *value, void **extra, GucSource source)
{
	int		   *here = scd2_guc_malloc(sizeof(int));

	if (here == NULL)
		return false;
	*here = depth;
	*extra = here;
	return true;
}

void
scd2_assign_own_ddl(bool value, void *extra)
{
	given_at = extra != NULL ? *(int *) extra : 0;
}

/* Is what happens now done by a statement, or a function, of ours? */
static bool
is_own(void)
{
	return own_statement || (scd2_own_ddl && given_at == depth);
}

/* Event triggers ask by current_setting(). */
const char *
scd2_show_own_ddl(void)
{
	return is_own() ? "on" : "off";
}

/* A utility statement begins. What has to be given to scd2_end_statement(), whether it fails or not. */
bool
scd2_begin_statement(void)
{
	bool		outer = own_statement;

	own_statement = scd2_own_ddl && given_at == depth;
	depth++;
	return outer;
}

void
scd2_end_statement(bool outer)
{
	depth--;
	own_statement = outer;
}

static bool
can_stand_on_relation(Oid class)
{
	return class == RelationRelationId || class == ConstraintRelationId || class == TriggerRelationId ||
		class == AttrDefaultRelationId || class == RewriteRelationId || class == StatisticExtRelationId ||
		class == InheritsRelationId || class == TypeRelationId;
}

/* The statement's own changes of the catalogs are not visible yet: the caches have the column as it was. */
static bool
column_changed(Oid relid, int16 attnum)
{
	HeapTuple	was = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attnum));
	Relation	attributes = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	is;
	bool		changed = false;

	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(attnum));
	scan = systable_beginscan(attributes, AttributeRelidNumIndexId, true, SnapshotSelf, 2, keys);
	is = systable_getnext(scan);
	if (HeapTupleIsValid(was) && HeapTupleIsValid(is))
	{
		Form_pg_attribute before = (Form_pg_attribute) GETSTRUCT(was);
		Form_pg_attribute after = (Form_pg_attribute) GETSTRUCT(is);

		changed = before->atttypid != after->atttypid || before->atttypmod != after->atttypmod ||
			before->attcollation != after->attcollation || strcmp(NameStr(before->attname), NameStr(after->attname)) != 0;
	}
	systable_endscan(scan);
	table_close(attributes, AccessShareLock);
	if (HeapTupleIsValid(was))
		ReleaseSysCache(was);
	return changed;
}

static void
note(Oid class, Oid object, int sub, char how)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Touched    *touch = palloc(sizeof(Touched));

	touch->class = class;
	touch->object = object;
	touch->sub = sub;
	touch->how = how;
	touched = lappend(touched, touch);
	MemoryContextSwitchTo(old);
}

static void
note_altered(Oid class, Oid object, int sub, const ObjectAccessPostAlter *how)
{
	bool		is_column = class == RelationRelationId && sub > 0;

	note(class, object, sub, is_column && column_changed(object, sub) ? TOUCHED_CHANGED : TOUCHED_ALTERED);
	if (class == InheritsRelationId && OidIsValid(how->auxiliary_id))
		note(class, how->auxiliary_id, 0, TOUCHED_PARENT);
}

static void
at_object_access(ObjectAccessType access, Oid class, Oid object, int sub, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class, object, sub, arg);
	if (is_own() || object < FirstNormalObjectId || !can_stand_on_relation(class) || !IsTransactionState())
		return;
	if (access == OAT_POST_CREATE)
		note(class, object, sub, TOUCHED_CREATED);
	else if (access == OAT_POST_ALTER)
		note_altered(class, object, sub, arg);
}

static Datum
array_of(const List *touches, Oid type, int at)
{
	Datum	   *elements = palloc(list_length(touches) * sizeof(Datum));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, touches)
	{
		const Touched *touch = lfirst(lc);

		elements[n++] = at == 0 ? ObjectIdGetDatum(touch->class) : at == 1 ? ObjectIdGetDatum(touch->object) :
			at == 2 ? Int32GetDatum(touch->sub) : CharGetDatum(touch->how);
	}
	return PointerGetDatum(construct_array(elements, n, type, type == CHAROID ? 1 : 4, true,
										   type == CHAROID ? TYPALIGN_CHAR : TYPALIGN_INT));
}

/* A database without the extension has no feeds; one of an older version does not know what may stand on them. */
static bool
is_judged_here(void)
{
	Oid			types[] = {OIDARRAYOID, OIDARRAYOID, INT4ARRAYOID, CHARARRAYOID};
	Oid			extension = get_extension_oid(SCD2_EXTENSION, true);

	return OidIsValid(extension) && !(creating_extension && CurrentExtensionObject == extension) &&
		OidIsValid(LookupFuncName(list_make2(makeString(SCD2_INTERNAL), makeString("refuse_unfit")), 4, types, true));
}

static void
judge(const List *touches)
{
	Oid			types[] = {OIDARRAYOID, OIDARRAYOID, INT4ARRAYOID, CHARARRAYOID};
	Datum		values[4];

	for (int i = 0; i < 4; i++)
		values[i] = array_of(touches, i < 2 ? OIDOID : i == 2 ? INT4OID : CHAROID, i);
	SPI_connect();
	PushActiveSnapshot(GetLatestSnapshot());
	if (SPI_execute_with_args("SELECT scd2_internal.refuse_unfit($1, $2, $3, $4)", 4, types, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.refuse_unfit()");
	PopActiveSnapshot();
	SPI_finish();
}

void
scd2_check_touched(void)
{
	List	   *touches = touched;
	Scd2Identity self;

	if (touches == NIL || !IsTransactionState())
		return;
	touched = NIL;
	CommandCounterIncrement();
	scd2_become(BOOTSTRAP_SUPERUSERID, &self);
	if (is_judged_here())
		judge(touches);
	scd2_become_self_again(&self);
}

static void
at_xact_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			scd2_check_touched();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			touched = NIL;
			break;
		default:
			break;
	}
}

void
scd2_bare_init(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = at_object_access;
	RegisterXactCallback(at_xact_event, NULL);
}
