/*
 * sync.h
 *		The end of the log, as a place to wait for.
 */
#ifndef SCD2_WORKER_SYNC_H
#define SCD2_WORKER_SYNC_H

#include "access/xlogdefs.h"

extern XLogRecPtr scd2_flushed_end(void);
extern char *scd2_worker_behind_us(bool all);

#endif							/* SCD2_WORKER_SYNC_H */
