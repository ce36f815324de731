/*
 * writer.h
 *		Rows of the batch into the feed.
 */
#ifndef SCD2_FEED_WRITER_H
#define SCD2_FEED_WRITER_H

#include "capture/batch.h"

extern bool scd2_feed_lock(Scd2Feed *feed, int patience);
extern void scd2_feed_write(Scd2Feed *feed);
extern void scd2_feed_look_again(Scd2Feed *feed, Oid relid);

#endif							/* SCD2_FEED_WRITER_H */
