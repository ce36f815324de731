/*
 * ready.h
 *		Whether this server can capture.
 */
#ifndef SCD2_WORKER_READY_H
#define SCD2_WORKER_READY_H

extern void scd2_require_settings(void);
extern void scd2_refuse_copy(void);
extern char *scd2_setting_with_us(const char *setting);

#endif							/* SCD2_WORKER_READY_H */
