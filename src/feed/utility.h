/*
 * utility.h
 *		Statements of users that event triggers do not see.
 */
#ifndef SCD2_FEED_UTILITY_H
#define SCD2_FEED_UTILITY_H

extern void scd2_utility_init(void);

#endif							/* SCD2_FEED_UTILITY_H */
