/*
 * write.h
 *		A batch into the database: feeds, control effects, position.
 */
#ifndef SCD2_CAPTURE_WRITE_H
#define SCD2_CAPTURE_WRITE_H

#include "capture/batch.h"

extern void scd2_write_batch(Scd2Batch *batch);
extern void scd2_write_position(Scd2Batch *batch, XLogRecPtr lsn);

#endif							/* SCD2_CAPTURE_WRITE_H */
