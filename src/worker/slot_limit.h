/*
 * slot_limit.h
 *		pg_scd2.max_slot_lag: slots that hold back too much WAL are given up.
 */
#ifndef SCD2_WORKER_SLOT_LIMIT_H
#define SCD2_WORKER_SLOT_LIMIT_H

#include "nodes/pg_list.h"

extern List *scd2_give_up_slots(void);

#endif							/* SCD2_WORKER_SLOT_LIMIT_H */
