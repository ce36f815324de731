/*
 * captured.h
 *		Which tables are captured, and how their rows become rows of their feeds.
 */
#ifndef SCD2_CAPTURE_CAPTURED_H
#define SCD2_CAPTURE_CAPTURED_H

#include "capture/batch.h"

/* How the rows of one relation (a table, or a leaf of a partitioned one) fit a feed. */
typedef struct Scd2Source
{
	Oid			relid;			/* hash key */
	bool		valid;			/* false: look again (relcache invalidation) */
	Scd2Feed   *feed;			/* NULL: not captured */
	bool		identity_full;
	bool		as_is;			/* the feed's columns are the metadata and then exactly the relation's */
	int			natts;			/* of the relation, as mapped */
	int			ncolumns;		/* of the feed's layout, as mapped */
	int			nvarlena;
	int16	   *varlena;		/* 0-based attributes that can be out of line */
	int16	   *attribute;		/* per column of the feed's layout: 0-based attribute, or -1 */
	Datum	   *values;			/* scratch, natts each */
	bool	   *isnull;
	Datum	   *old_values;
	bool	   *old_isnull;
} Scd2Source;

extern void scd2_captured_init(MemoryContext parent);
extern void scd2_captured_load(Scd2Batch *batch);
extern Scd2Feed *scd2_captured_add(int feed_id, Oid source_relid, Oid feed_relid);
extern void scd2_captured_remove(int feed_id);
extern void scd2_captured_forget_backlog(const struct Scd2Backlog *backlog);
extern void scd2_captured_forget_removed(void);
extern void scd2_captured_attach(const Scd2Batch *batch);
extern bool scd2_captured_follow(Scd2Feed *feed, Oid relid);
extern void scd2_captured_settle(List *feeds);
extern int	scd2_captured_count(void);
extern List *scd2_captured_feeds(void);
extern Scd2Feed *scd2_captured_by_id(int feed_id);
extern Scd2Feed *scd2_captured_by_source(Oid source_relid);

/* The source that a relation is, as it was when the change at hand was made. Never NULL. */
extern Scd2Feed *scd2_captured_of(Relation relation);
extern Scd2Source *scd2_source_of(Relation relation);

extern Scd2Source *scd2_source_for(Relation relation, Scd2Feed *feed);

#endif							/* SCD2_CAPTURE_CAPTURED_H */
