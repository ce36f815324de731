/*
 * bare.h
 *		What may stand on relations that workers write as superusers.
 */
#ifndef SCD2_FEED_BARE_H
#define SCD2_FEED_BARE_H

#include "utils/guc.h"

extern bool scd2_check_own_ddl(bool *value, void **extra, GucSource source);
extern void scd2_assign_own_ddl(bool value, void *extra);
extern const char *scd2_show_own_ddl(void);
extern bool scd2_begin_statement(void);
extern void scd2_end_statement(bool outer);
extern void scd2_bare_init(void);

/* To be called when a statement is done: raises if it put something where it may not stand. */
extern void scd2_check_touched(void);

#endif							/* SCD2_FEED_BARE_H */
