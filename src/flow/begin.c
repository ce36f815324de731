/*
 * begin.c
 *		The beginning of a flow: what capture calls at its place in the log.
 *
 * Apart from state.c, whose header capture cannot include: it knows nothing of flows but this.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/timestamp.h"

#include "flow/begin.h"

/*
 * A flow begins at a version and its time, with its first copy. It may have been dropped since, or be
 * dropped right now: who does that is not waited for, and the state of no flow is nobody's. Within SPI.
 */
void
scd2_flow_begin(int flow_id, int64 version, TimestampTz timestamp)
{
	Oid			types[] = {INT4OID, INT8OID, TIMESTAMPTZOID};
	Datum		args[] = {Int32GetDatum(flow_id), Int64GetDatum(version), TimestampTzGetDatum(timestamp)};

	if (SPI_execute_with_args("INSERT INTO scd2_internal.flow_state"
							  " (flow_id, phase, begin_version, begin_timestamp, watermark_version, watermark_timestamp)"
							  " SELECT flow_id, 'copy', $2, $3, $2, $3 FROM scd2_internal.flow WHERE flow_id = $1",
							  3, types, args, NULL, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not write scd2_internal.flow_state");
}
