/*
 * code.c
 *		Which functions may run in our background workers, and where a session acts as a superuser.
 *
 * A worker is a superuser process that serves everybody. It looks at no expression of users if it can
 * help it (feeds have none), but paths into users' code are many: operators, domains, triggers, folded
 * constants of statistics, a range type's functions, SQL in a function of the server. They all call the
 * function by way of fmgr.c. Its hooks are the backstop: they raise 42501, which names the function and
 * its owner.
 *
 *   needs_fmgr_hook   asked when a function is looked up, or is about to be inlined; but not about those with SECURITY DEFINER or SET
 *   fmgr_hook         told of each call of those, and of what the former returned true for
 *
 * So the former returns true for what may not run, or only as some users, and the latter raises. To raise
 * when a function is looked up would be too much: whoever compares ranges looks up the functions of their
 * type, but calls none of them. And it would be too little where the rule depends on the current user:
 * relation and type caches keep what was looked up for as long as the process lives. (Because of them the
 * hooks are set before a worker connects to a database. In a session they are set when a rule is first
 * begun: what its caches had before is not asked about.)
 *
 * The hooks see no function that is built into the server: expressions of users that call only such
 * (pg_advisory_lock(), pg_read_file(), lo_import()) have to be kept out by other means. A view is full
 * of expressions, and its owner can replace them: so views are as functions, whatever they are read
 * through (a view of a superuser, a version_query).
 *
 * Functions whose OID is of initdb pass without a look. Others are looked up in catalogs that logical
 * decoding may read (pg_proc, pg_authid), by way of caches whose own functions are built in: the hooks
 * do not come back to themselves. fmgr.c has the function's row at hand already, so we are in a
 * transaction; a hook that is called outside of one lets everything pass.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "worker/code.h"

#define MAX_NESTED	32

typedef struct BegunRule
{
	Scd2CodeRule rule;
	int			level;			/* of the transaction that it was begun in */
} BegunRule;

static needs_fmgr_hook_type prev_needs_fmgr_hook = NULL;
static fmgr_hook_type prev_fmgr_hook = NULL;
static Scd2CodeRule rule_of_process = SCD2_CODE_ANY;
static BegunRule begun[MAX_NESTED];
static int	nbegun = 0;
static bool installed = false;

static Scd2CodeRule
rule_in_force(void)
{
	return nbegun > 0 ? begun[nbegun - 1].rule : rule_of_process;
}

/* Was a function written by a superuser, as far as is known? */
static bool
is_trusted(Oid function, Oid *owner, bool *in_sql)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc;
	bool		trusted;

	*in_sql = false;
	if (!HeapTupleIsValid(tuple))
		return true;			/* the server says so */
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	trusted = proc->prolang == INTERNALlanguageId || proc->prolang == ClanguageId || superuser_arg(proc->proowner);
	*owner = proc->proowner;
	*in_sql = proc->prolang == SQLlanguageId;
	ReleaseSysCache(tuple);
	return trusted;
}

static void
refuse(Oid function, Oid owner)
{
	char	   *name = format_procedure_qualified(function);
	char	   *role = GetUserNameFromId(owner, true);

	if (role == NULL)
		role = psprintf("%u", owner);
	if (rule_in_force() == SCD2_CODE_OF_CAPTURE)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("function %s of role \"%s\" must not run in the capture worker", name, role),
				 errdetail("Functions that are not in C run there only if a superuser owns them."),
				 errhint("SELECT * FROM scd2.diagnose(); -- names what has to be taken off a feed")));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("function %s of role \"%s\" must not run as superuser \"%s\"", name, role, GetUserNameFromId(GetUserId(), false)),
			 errdetail("Functions that are not in C run as a superuser only if a superuser owns them."),
			 errhint("ALTER FUNCTION %s OWNER TO %s; -- if you have read it", name, quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

static void
refuse_view(Form_pg_class view)
{
	const char *name = quote_qualified_identifier(get_namespace_name(view->relnamespace), NameStr(view->relname));
	const char *role = GetUserNameFromId(GetUserId(), false);

	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("view %s of role \"%s\" must not be read as superuser \"%s\"", name, GetUserNameFromId(view->relowner, false), role),
			 errdetail("What its owner wrote would run as that superuser."),
			 errhint("ALTER VIEW %s OWNER TO %s; -- if you have read it", name, quote_identifier(role))));
}

/* A function that may be called by way of the hook alone. False: by anybody, or there is no rule. */
static bool
is_watched(Oid function, Oid *owner, bool *in_sql)
{
	return (rule_in_force() != SCD2_CODE_ANY || rule_of_process != SCD2_CODE_ANY) &&
		function >= FirstNormalObjectId && IsTransactionState() && !is_trusted(function, owner, in_sql);
}

static bool
is_refused(void)
{
	Scd2CodeRule rule = rule_in_force();

	return rule == SCD2_CODE_OF_CAPTURE || (rule == SCD2_CODE_OF_SUPERUSERS && superuser());
}

/*
 * Where anything may run now, functions in SQL are inlined as ever. (Those that caches keep for other
 * users are in other languages, unless a superuser made an operator class of one.)
 */
static bool
needs_hook(Oid function)
{
	Oid			owner;
	bool		in_sql;
	bool		ours = is_watched(function, &owner, &in_sql) && (is_refused() || !in_sql);

	return (prev_needs_fmgr_hook && prev_needs_fmgr_hook(function)) || ours;
}

static void
at_call(FmgrHookEventType event, FmgrInfo *flinfo, Datum *arg)
{
	Oid			owner;
	bool		in_sql;

	if (event == FHET_START && is_refused() && is_watched(flinfo->fn_oid, &owner, &in_sql))
		refuse(flinfo->fn_oid, owner);
	if (prev_fmgr_hook)
		prev_fmgr_hook(event, flinfo, arg);
}

/*
 * To be called before a query is executed: raises if it reads a view that no superuser owns, where
 * functions that none owns are refused.
 */
void
scd2_code_check_query(const PlannedStmt *plan)
{
	ListCell   *lc;

	if (!is_refused() || !IsTransactionState())
		return;
	/* Not its relationOids: constants that are regclass are among those. */
	foreach(lc, plan->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		Oid			relid = rte->rtekind == RTE_RELATION || rte->rtekind == RTE_SUBQUERY ? rte->relid : InvalidOid;
		HeapTuple	tuple = relid >= FirstNormalObjectId ? SearchSysCache1(RELOID, ObjectIdGetDatum(relid)) : NULL;
		Form_pg_class class;

		if (!HeapTupleIsValid(tuple))
			continue;
		class = (Form_pg_class) GETSTRUCT(tuple);
		if (class->relkind == RELKIND_VIEW && !superuser_arg(class->relowner))
			refuse_view(class);
		ReleaseSysCache(tuple);
	}
}

/* Rules that were begun in transactions of this level or below it are over. */
static void
end_level(int level)
{
	while (nbegun > 0 && begun[nbegun - 1].level >= level)
		nbegun--;
}

static void
at_xact_event(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE)
		nbegun = 0;
}

static void
at_subxact_event(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		end_level(GetCurrentTransactionNestLevel());
}

void
scd2_code_install(Scd2CodeRule rule)
{
	Assert(!installed);
	installed = true;
	rule_of_process = rule;
	prev_needs_fmgr_hook = needs_fmgr_hook;
	needs_fmgr_hook = needs_hook;
	prev_fmgr_hook = fmgr_hook;
	fmgr_hook = at_call;
	RegisterXactCallback(at_xact_event, NULL);
	RegisterSubXactCallback(at_subxact_event, NULL);
}

void
scd2_code_begin(Scd2CodeRule rule)
{
	if (!installed)
		scd2_code_install(SCD2_CODE_ANY);
	if (nbegun == MAX_NESTED)
		elog(ERROR, "too many nested rules of what may run");
	begun[nbegun].rule = rule;
	begun[nbegun].level = GetCurrentTransactionNestLevel();
	nbegun++;
}

void
scd2_code_end(void)
{
	Assert(nbegun > 0 && begun[nbegun - 1].level == GetCurrentTransactionNestLevel());
	nbegun--;
}
