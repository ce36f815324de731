/*
 * state.h
 *		A flow's state, as the workers keep it.
 */
#ifndef SCD2_FLOW_STATE_H
#define SCD2_FLOW_STATE_H

#include "flow/work.h"

typedef struct Scd2FlowState
{
	int			flow_id;
	ItemPointerData tid;		/* of its row, invalid: not known */
	char		phase;			/* first letter: copy, apply, failed, done */
	int			definition;
	bool		paused;
	bool		fresh;			/* never copied */
	int64		begin_version;
	TimestampTz begin_timestamp;
	int64		watermark_version;
	TimestampTz watermark_timestamp;
	int64		gap;			/* first version that the feed lacks: the flow stops before it */
	int64		complete;		/* what comes behind it of the feed waits to be written; PG_INT64_MAX: nothing does */
	bool		rereads;		/* its copy adds to what is there */
	int64		earliest;		/* the first version that its feed has, if older ones were removed; else 0 */
	int64		disordered;		/* the feed's rows up to this version do not lie in its order */
	int64		batches;
	int			failures;
	TimestampTz retry_at;		/* 0: at once */
	TimestampTz snapshot_at;	/* when the source of a snapshot flow was looked at last; 0: never */
} Scd2FlowState;

extern bool scd2_state_read(Scd2FlowState *state);
extern void scd2_state_advance(Scd2FlowState *state, const Scd2Work *work, TimestampTz started, int64 upto, TimestampTz upto_timestamp);
extern void scd2_state_copied(Scd2FlowState *state, int64 rows);
extern void scd2_state_begun(Scd2FlowState *state, bool done);
extern void scd2_state_snapshot(Scd2FlowState *state, const Scd2Work *work, TimestampTz started, const char *version, TimestampTz timestamp, bool done);
extern bool scd2_state_is_transient(int sqlerrcode);
extern void scd2_state_failed(Scd2FlowState *state, const ErrorData *error, int64 version, bool passes);

#endif							/* SCD2_FLOW_STATE_H */
