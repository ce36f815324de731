/*
 * disorder.c
 *		Feeds whose rows others put elsewhere.
 *
 * Capture appends, so the rows of a feed lie in the order of their versions, and flows go on reading
 * where they stopped (flow/apply.c). An owner who writes rows by hand, or sorts them by CLUSTER, changes
 * that: it is recorded in his transaction up to which version, and flows look for rows up to that
 * everywhere. (VACUUM FULL keeps their order. What erase() removes leaves places that we do not use.)
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "utils/snapmgr.h"

#include "pg_scd2.h"
#include "compat.h"
#include "feed/disorder.h"
#include "identity.h"

/* In a database without the extension, or with one of a version before, nothing is to be recorded. */
static bool
is_recorded_here(void)
{
	Oid			types[] = {OIDOID};

	return OidIsValid(get_extension_oid(SCD2_EXTENSION, true)) &&
		OidIsValid(LookupFuncName(list_make2(makeString(SCD2_INTERNAL), makeString("note_disorder")), 1, types, true));
}

/* Rows of a relation, which can be a feed or a partition of one, may lie elsewhere; invalid: of any that CLUSTER sorts. */
void
scd2_note_disorder(Oid relid)
{
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(relid)};
	const char	nulls[] = {OidIsValid(relid) ? ' ' : 'n', '\0'};
	Scd2Identity self;

	scd2_become(BOOTSTRAP_SUPERUSERID, &self);
	if (is_recorded_here())
	{
		SPI_connect();
		PushActiveSnapshot(GetTransactionSnapshot());
		if (SPI_execute_with_args("SELECT scd2_internal.note_disorder($1)", 1, types, values, nulls, false, 0) != SPI_OK_SELECT)
			elog(ERROR, "could not call scd2_internal.note_disorder()");
		PopActiveSnapshot();
		SPI_finish();
	}
	scd2_become_self_again(&self);
}
