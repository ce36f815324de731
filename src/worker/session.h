/*
 * session.h
 *		What a worker's session keeps from one transaction to the next: nothing of users'.
 */
#ifndef SCD2_WORKER_SESSION_H
#define SCD2_WORKER_SESSION_H

extern void scd2_session_init(void);

#endif							/* SCD2_WORKER_SESSION_H */
