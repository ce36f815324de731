/*
 * hooks.h
 *		What every session does for us.
 */
#ifndef SCD2_WORKER_HOOKS_H
#define SCD2_WORKER_HOOKS_H

extern void scd2_hooks_init(void);

#endif							/* SCD2_WORKER_HOOKS_H */
