/*
 * ready.h
 *		Whether this server can capture.
 */
#ifndef SCD2_WORKER_READY_H
#define SCD2_WORKER_READY_H

extern void scd2_require_settings(void);
extern char *scd2_preload_with_us(void);

#endif							/* SCD2_WORKER_READY_H */
