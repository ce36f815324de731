/*
 * owners_code.h
 *		Code of a feed's owner that runs in the capture worker.
 */
#ifndef SCD2_FEED_OWNERS_CODE_H
#define SCD2_FEED_OWNERS_CODE_H

#include "utils/elog.h"
#include "utils/rel.h"

/*
 * From here to scd2_end_owners_code() code of the owner of "rel" can run, if something on it (or on
 * its partitions) has some.
 */
extern void scd2_begin_owners_code(Relation rel);

/* It has got on: it is given its time anew. */
extern void scd2_owners_code_gets_on(void);
extern void scd2_end_owners_code(void);

/*
 * Does an error mean that the feed that was being written cannot be written as it is, whenever it
 * is tried? To be asked once, where the error is caught.
 */
extern bool scd2_feed_error_is_permanent(ErrorData *error);

#endif							/* SCD2_FEED_OWNERS_CODE_H */
