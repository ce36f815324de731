/*
 * call.c
 *		The door from a public function to its privileged twin.
 *
 * A public function that needs more than its caller's rights (catalog rows, tables in schemas where
 * the caller may not create) is declared in C with the symbol scd2_call_internal. It calls the
 * function of the same name and argument types in schema scd2_internal, with one argument more in
 * front: the oid of the role that called. That function is SECURITY DEFINER with a pinned
 * search_path, so the call manager switches to the extension's owner for it; nobody else has
 * EXECUTE on it or USAGE on its schema, and so the role cannot be forged. (A SECURITY DEFINER
 * function alone cannot learn who called it: current_user is its owner, session_user may be
 * somebody else.)
 *
 * The twin checks what the role may do. Code of users that runs in a worker may ask, but not change
 * anything or wait: the worker would meet its own locks, or wait for itself.
 *
 * Settings of the session that change what SQL text means are set to what our text was written for
 * (an expression must mean the same here, where it is checked, and in the worker), and a
 * default_tablespace that the caller must not use is not used for him either. No wait for a lock is longer than
 * pg_scd2.lock_timeout.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/tablespace.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "pg_scd2.h"
#include "compat.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(scd2_call_internal);

/*
 * Schemas of the search_path of the innermost public function's caller, for names given as text.
 * Right only while its twin runs.
 */
List	   *scd2_caller_path = NIL;

/*
 * Raises 55000 in a worker. "function": of schema scd2.
 */
void
scd2_refuse_in_worker(const char *function)
{
	if (scd2_in_worker)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("scd2.%s() cannot be called by code that runs in a worker", function),
				 errdetail("A trigger, expression or view of a flow may read histories and feeds, no more.")));
}

/* Finds the twin of a public function: same name, same arguments after a leading oid. */
static Oid
find_twin(Oid public_oid)
{
	HeapTuple	tup = SearchSysCache1(PROCOID, ObjectIdGetDatum(public_oid));
	Form_pg_proc proc;
	Oid			types[FUNC_MAX_ARGS];
	Oid			twin;

	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for function %u", public_oid);
	proc = (Form_pg_proc) GETSTRUCT(tup);
	if (proc->provolatile == PROVOLATILE_VOLATILE)
		scd2_refuse_in_worker(NameStr(proc->proname));
	types[0] = OIDOID;
	memcpy(types + 1, proc->proargtypes.values, proc->pronargs * sizeof(Oid));
	twin = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum(NameStr(proc->proname)),
						   PointerGetDatum(buildoidvector(types, proc->pronargs + 1)),
						   ObjectIdGetDatum(get_namespace_oid(SCD2_INTERNAL, false)));
	if (!OidIsValid(twin))
		elog(ERROR, "no internal function for \"%s\"", NameStr(proc->proname));
	ReleaseSysCache(tup);
	return twin;
}

/*
 * Calls the twin. What it refuses (by RAISE, or in C without the context that it was called in)
 * reaches the user as if the public function had said it: without the lines that tell which
 * internal function called which, but with the context of the caller. Other errors keep all of it.
 */
static Datum
invoke(FunctionCallInfo twin, List *outer_path)
{
	MemoryContext cxt = CurrentMemoryContext;
	Datum		result = (Datum) 0;

	PG_TRY();
	{
		result = FunctionCallInvoke(twin);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		scd2_caller_path = outer_path;
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		if (error->context != NULL && (error->funcname == NULL || strcmp(error->funcname, "exec_stmt_raise") != 0))
			PG_RE_THROW();
		FlushErrorState();
		error->context = NULL;
		ThrowErrorData(error);
	}
	PG_END_TRY();
	return result;
}

/*
 * Settings that change what SQL text means, or what a value is as text, whoever set them for database, role or
 * session. In workers these hold throughout. What no door leads to (event triggers, functions that read as their
 * caller) is written so that they make no difference: a literal with a backslash is an E''.
 */
const char *const scd2_text_settings[SCD2_TEXT_SETTINGS][2] = {
	{"standard_conforming_strings", "on"}, {"backslash_quote", "safe_encoding"}, {"escape_string_warning", "on"},
	{"transform_null_equals", "off"}, {"array_nulls", "on"}, {"quote_all_identifiers", "off"},
	{"bytea_output", "hex"}, {"extra_float_digits", "1"}, {"xmlbinary", "base64"}, {"xmloption", "content"},
};

static void
use_setting(const char *name, const char *value)
{
	const char *now = GetConfigOption(name, true, false);

	if (now != NULL && strcmp(now, value) != 0)
		(void) set_config_option(name, value, superuser() ? PGC_SUSET : PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * What changes something waits for no lock for longer than pg_scd2.lock_timeout: of the server's own locks, too. Names in
 * its catalogs (two make tables of one name) are waited for while tables of the caller's are locked already.
 */
static void
bound_waits(Oid function)
{
	int			bound = Max(scd2_lock_timeout, 1);

	if (func_volatile(function) == PROVOLATILE_VOLATILE && (LockTimeout == 0 || LockTimeout > bound))
		use_setting("lock_timeout", psprintf("%d", bound));
}

/* Until the caller ends the nest level. */
static void
use_settings(void)
{
	const char *tablespace = GetConfigOption("default_tablespace", false, false);
	Oid			spcoid = *tablespace != '\0' ? get_tablespace_oid(tablespace, true) : InvalidOid;

	for (int i = 0; i < SCD2_TEXT_SETTINGS; i++)
		use_setting(scd2_text_settings[i][0], scd2_text_settings[i][1]);
	if (OidIsValid(spcoid) && spcoid != MyDatabaseTableSpace && !scd2_may_create_in_tablespace(spcoid))
		use_setting("default_tablespace", "");
}

Datum
scd2_call_internal(PG_FUNCTION_ARGS)
{
	FmgrInfo   *twin = fcinfo->flinfo->fn_extra;
	LOCAL_FCINFO(inner, FUNC_MAX_ARGS);
	List	   *outer_path = scd2_caller_path;
	Datum		result;
	int			nest = NewGUCNestLevel();

	use_settings();
	bound_waits(fcinfo->flinfo->fn_oid);
	if (twin == NULL)
	{
		twin = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(FmgrInfo));
		fmgr_info_cxt(find_twin(fcinfo->flinfo->fn_oid), twin,
					  fcinfo->flinfo->fn_mcxt);
		fcinfo->flinfo->fn_extra = twin;
	}

	InitFunctionCallInfoData(*inner, twin, fcinfo->nargs + 1,
							 fcinfo->fncollation, NULL, fcinfo->resultinfo);
	inner->args[0].value = ObjectIdGetDatum(GetUserId());
	inner->args[0].isnull = false;
	memcpy(&inner->args[1], fcinfo->args, fcinfo->nargs * sizeof(NullableDatum));
	scd2_caller_path = fetch_search_path(false);
	result = invoke(inner, outer_path);
	scd2_caller_path = outer_path;
	AtEOXact_GUC(true, nest);
	fcinfo->isnull = inner->isnull;
	return result;
}
