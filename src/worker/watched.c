/*
 * watched.c
 *		Event triggers of others, which can refuse DDL of ours.
 *
 * Hosters and administrators have event triggers that allow DDL to some roles, or log it. One that
 * raises an error at a statement of ours, in a worker, says nothing of the table at hand: it passes
 * when the trigger is changed. So while there is one, errors of our DDL are tried again and again, and
 * what waits for it waits, within its bounds.
 */
#include "postgres.h"

#include "executor/spi.h"

#include "pg_scd2.h"
#include "worker/watched.h"

/* In a transaction with a snapshot, within SPI. */
bool
scd2_ddl_is_watched(void)
{
	if (SPI_execute("SELECT FROM pg_catalog.pg_event_trigger AS t"
					" WHERE t.evtenabled <> 'D' AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid"
					"   WHERE d.classid = 'pg_catalog.pg_event_trigger'::pg_catalog.regclass AND d.objid = t.oid AND d.deptype = 'e'"
					"     AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND e.extname = '" SCD2_EXTENSION "')", true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read pg_event_trigger");
	return SPI_processed > 0;
}
