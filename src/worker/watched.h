/*
 * watched.h
 *		Event triggers of others, which can refuse DDL of ours.
 */
#ifndef SCD2_WORKER_WATCHED_H
#define SCD2_WORKER_WATCHED_H

extern bool scd2_ddl_is_watched(void);

#endif							/* SCD2_WORKER_WATCHED_H */
