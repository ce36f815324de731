/*
 * blame.h
 *		The feed at whose changes capture fails again and again.
 */
#ifndef SCD2_CAPTURE_BLAME_H
#define SCD2_CAPTURE_BLAME_H

#include "access/xlogdefs.h"

/* The number of the feed whose change is being decoded, or which is being loaded; 0: none. */
extern int	scd2_feed_at_work;

/* A feed that is to have a gap instead of what it cannot have; 0: none. Of this worker. */
extern int	scd2_condemned_feed;

static inline bool
scd2_is_condemned(int feed_id)
{
	return unlikely(scd2_condemned_feed != 0) && scd2_condemned_feed == feed_id;
}

extern const char *scd2_condemned_why(void);
extern void scd2_blame_load(void);
extern bool scd2_blame_note(const ErrorData *error, XLogRecPtr at);
extern void scd2_blame_settle(void);

#endif							/* SCD2_CAPTURE_BLAME_H */
