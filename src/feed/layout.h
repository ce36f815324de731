/*
 * layout.h
 *		The columns of a feed's rows, and how they follow those of the source.
 */
#ifndef SCD2_FEED_LAYOUT_H
#define SCD2_FEED_LAYOUT_H

#include "capture/batch.h"

extern void scd2_layout_load(Scd2Feed *feed);
extern void scd2_layout_of_misfit(Scd2Feed *feed, const char *why);
extern void scd2_layout_set(Scd2Feed *feed, TupleDesc layout, Scd2Column *columns);
extern void scd2_layout_read(Scd2Feed *feed);
extern void scd2_layout_exclude(Scd2Feed *feed, const char *names);
extern void scd2_layout_read_exclusions(Scd2Feed *feed);
extern bool scd2_layout_excludes(Scd2Feed *feed, const char *name);
extern void scd2_layout_follow(Scd2Feed *feed, TupleDesc source, TupleDesc relation, int64 version, TransactionId xid);
extern int	scd2_layout_gone(const Scd2Feed *feed);
extern void scd2_layout_settle(Scd2Feed *feed);
extern int	scd2_layout_of_source(const Scd2Feed *feed, int16 source_attnum);
extern int	scd2_layout_find(TupleDesc desc, const char *name);

#endif							/* SCD2_FEED_LAYOUT_H */
