/*
 * lock.h
 *		Locks on feeds that nobody is waited for.
 */
#ifndef SCD2_FEED_LOCK_H
#define SCD2_FEED_LOCK_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

/* Locks that were taken for a feed, to be given back if one is not to be had: the batch goes on without it. */
typedef struct Scd2Locks
{
	int			feed_id;
	TimestampTz until;			/* before it they are waited for, each as long as lock_timeout says; 0: never */
	List	   *relids;
	List	   *modes;			/* of each */
} Scd2Locks;

extern bool scd2_take_lock(Scd2Locks *locks, Oid relid, LOCKMODE mode);
extern bool scd2_take_locks_of_table(Scd2Locks *locks, Oid relid, LOCKMODE mode);
extern bool scd2_take_locks_of_feed(Scd2Locks *locks, Oid feed_relid);
extern void scd2_give_locks_back(const Scd2Locks *locks);

#endif							/* SCD2_FEED_LOCK_H */
