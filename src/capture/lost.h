/*
 * lost.h
 *		A place in the log that is lost.
 */
#ifndef SCD2_CAPTURE_LOST_H
#define SCD2_CAPTURE_LOST_H

#include "nodes/pg_list.h"

#include "capture/position.h"

extern bool scd2_position_is_foreign(const Scd2Position *position);
extern char *scd2_position_why_lost(const Scd2Position *position);
extern void scd2_position_lose(Scd2Position *position, const char *why);
extern void scd2_position_settle_controls(const Scd2Position *position);
extern List *scd2_position_settled_controls(void);

#endif							/* SCD2_CAPTURE_LOST_H */
