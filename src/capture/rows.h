/*
 * rows.h
 *		A feed's rows in the batch: appended while decoding, read once or twice while writing.
 */
#ifndef SCD2_CAPTURE_ROWS_H
#define SCD2_CAPTURE_ROWS_H

#include "access/htup.h"
#include "utils/resowner.h"

typedef struct Scd2Rows Scd2Rows;

/* What the buffers of a batch keep in memory, and may keep together, in bytes. */
typedef struct Scd2RowMemory
{
	Size		used;
	Size		limit;
} Scd2RowMemory;

extern Scd2Rows *scd2_rows_create(MemoryContext cxt, ResourceOwner owner, Scd2RowMemory *memory);
extern HeapTupleHeader scd2_rows_add(Scd2Rows *rows, uint32 len);
extern void scd2_rows_rewind(Scd2Rows *rows);
extern bool scd2_rows_next_chunk(Scd2Rows *rows);
extern bool scd2_rows_next(Scd2Rows *rows, HeapTuple tuple);
extern const char *scd2_rows_chunk(const Scd2Rows *rows, Size *size);
extern void scd2_rows_add_chunk(Scd2Rows *rows, const char *chunk, Size size);
extern void scd2_rows_end(Scd2Rows *rows);

#endif							/* SCD2_CAPTURE_ROWS_H */
