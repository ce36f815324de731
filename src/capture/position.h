/*
 * position.h
 *		Where capture stands: the one row of scd2_internal.position.
 */
#ifndef SCD2_CAPTURE_POSITION_H
#define SCD2_CAPTURE_POSITION_H

#include "access/xlogdefs.h"
#include "utils/timestamp.h"

typedef struct Scd2Position
{
	int64		version;
	TimestampTz timestamp;		/* 0: none yet */
	XLogRecPtr	lsn;			/* InvalidXLogRecPtr: no slot yet */
	Oid			database;
	uint64		system_identifier;
	int			timeline;
	NameData	slot;
	bool		restored;		/* a dump brought it */
} Scd2Position;

extern bool scd2_position_read(Scd2Position *position);
extern bool scd2_position_forget_empty(void);
extern void scd2_position_create(Scd2Position *position);
extern void scd2_position_write(int64 version, TimestampTz timestamp, XLogRecPtr lsn);

#endif							/* SCD2_CAPTURE_POSITION_H */
