/*
 * writer.h
 *		Rows of the batch into the feed.
 */
#ifndef SCD2_FEED_WRITER_H
#define SCD2_FEED_WRITER_H

#include "capture/batch.h"

extern void scd2_feed_write(Scd2Feed *feed);

#endif							/* SCD2_FEED_WRITER_H */
