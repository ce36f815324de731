/*
 * upkeep.h
 *		What feeds need from time to time.
 */
#ifndef SCD2_FEED_UPKEEP_H
#define SCD2_FEED_UPKEEP_H

extern bool scd2_feed_upkeep(bool busy);

#endif							/* SCD2_FEED_UPKEEP_H */
