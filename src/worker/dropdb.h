/*
 * dropdb.h
 *		DROP DATABASE of a database that has, or had, workers.
 */
#ifndef SCD2_WORKER_DROPDB_H
#define SCD2_WORKER_DROPDB_H

extern void scd2_dropdb_init(void); /* from _PG_init, with the library preloaded */

#endif							/* SCD2_WORKER_DROPDB_H */
