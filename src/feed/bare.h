/*
 * bare.h
 *		What may stand on relations that workers write as superusers.
 */
#ifndef SCD2_FEED_BARE_H
#define SCD2_FEED_BARE_H

extern void scd2_bare_init(void);

/* To be called when a statement is done: raises if it put something where it may not stand. */
extern void scd2_check_touched(void);

#endif							/* SCD2_FEED_BARE_H */
