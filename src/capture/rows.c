/*
 * rows.c
 *		A feed's rows in the batch: appended while decoding, read once or twice while writing.
 *
 * A tuplestore would do, but copies each row four times on its way. Here a row is formed in place,
 * in a chunk of memory, and handed to the heap from there: chunks are written to a temporary file
 * and read back whole.
 *
 * A chunk is a sequence of (length, padding to MAXALIGN, heap tuple, padding). No row straddles
 * chunks. The first is small, so that a transaction of one row costs little, each next one twice as
 * big up to MAX_CHUNK. Full chunks are kept as long as there is room, which all buffers of a batch
 * share; from then on they go to the file.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/tablespace.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#include "compat.h"
#include "capture/rows.h"

#define FIRST_CHUNK	((Size) 8 * 1024)
#define MAX_CHUNK	((Size) 128 * 1024)

#define ROW_HEADER	MAXALIGN(sizeof(uint32))

typedef struct Chunk
{
	struct Chunk *next;
	Size		size;			/* of data */
	Size		used;
	char	   *data;
} Chunk;

struct Scd2Rows
{
	MemoryContext cxt;
	ResourceOwner owner;		/* of the file */
	Scd2RowMemory *memory;		/* shared by all buffers of a batch */
	Size		chunk_size;		/* of the next chunk */
	Chunk	   *first;			/* kept chunks, full, in order */
	Chunk	   *last;
	Chunk	   *filling;		/* the newest: after all of them and the file; NULL: no rows yet */
	BufFile    *file;			/* NULL: everything is in memory */
	int64		in_file;		/* chunks */

	/* Reading. */
	Chunk	   *reading;
	Size		at;
	Chunk	   *next_kept;
	int64		left_in_file;
	bool		filling_read;
	Chunk	   *from_file;		/* the chunk read last */
};

static Chunk *
make_chunk(Scd2Rows *rows, Size size)
{
	Chunk	   *chunk = MemoryContextAlloc(rows->cxt, sizeof(Chunk));

	chunk->next = NULL;
	chunk->size = size;
	chunk->used = 0;
	chunk->data = MemoryContextAllocHuge(rows->cxt, size);
	return chunk;
}

/*
 * Makes an empty buffer in "cxt", which frees its memory; the file is closed by scd2_rows_end() and
 * belongs to "owner". Full chunks are kept as long as "memory" has room for them.
 */
Scd2Rows *
scd2_rows_create(MemoryContext cxt, ResourceOwner owner, Scd2RowMemory *memory)
{
	Scd2Rows   *rows = MemoryContextAllocZero(cxt, sizeof(Scd2Rows));

	rows->cxt = cxt;
	rows->owner = owner;
	rows->memory = memory;
	rows->chunk_size = FIRST_CHUNK;
	return rows;
}

static void
open_file(Scd2Rows *rows)
{
	MemoryContext old = MemoryContextSwitchTo(rows->cxt);
	ResourceOwner owner = CurrentResourceOwner;

	PrepareTempTablespaces();
	CurrentResourceOwner = rows->owner;
	rows->file = BufFileCreateTemp(true);
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(old);
}

static void
spill(Scd2Rows *rows, Chunk *chunk)
{
	if (rows->file == NULL)
		open_file(rows);
	BufFileWrite(rows->file, &chunk->used, sizeof(Size));
	BufFileWrite(rows->file, chunk->data, chunk->used);
	rows->in_file++;
}

/* Puts the chunk that is full away, and makes room for "need" bytes. */
static void
next_filling(Scd2Rows *rows, Size need)
{
	Chunk	   *full = rows->filling;

	if (full != NULL && (rows->file != NULL || rows->memory->used + full->size > rows->memory->limit))
	{
		spill(rows, full);
		full->used = 0;
		if (full->size >= need)
			return;
		pfree(full->data);
		pfree(full);
	}
	else if (full != NULL)
	{
		rows->memory->used += full->size;
		if (rows->last != NULL)
			rows->last->next = full;
		else
			rows->first = full;
		rows->last = full;
	}
	rows->filling = make_chunk(rows, Max(need, rows->chunk_size));
	rows->chunk_size = Min(rows->chunk_size * 2, MAX_CHUNK);
}

/*
 * Adds a row of "len" bytes, which the caller forms in the place returned, before anything else is added.
 */
HeapTupleHeader
scd2_rows_add(Scd2Rows *rows, uint32 len)
{
	Size		need = ROW_HEADER + MAXALIGN(len);
	Chunk	   *chunk = rows->filling;
	char	   *at;

	if (chunk == NULL || chunk->used + need > chunk->size)
	{
		next_filling(rows, need);
		chunk = rows->filling;
	}
	at = chunk->data + chunk->used;
	*(uint32 *) at = len;
	chunk->used += need;
	return (HeapTupleHeader) (at + ROW_HEADER);
}

/* To the first row. Nothing can be added any more. */
void
scd2_rows_rewind(Scd2Rows *rows)
{
	rows->reading = NULL;
	rows->next_kept = rows->first;
	rows->left_in_file = rows->in_file;
	rows->filling_read = rows->filling == NULL;
	if (rows->file != NULL && BufFileSeek(rows->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind the temporary file of a feed's rows")));
}

static Chunk *
read_chunk(Scd2Rows *rows)
{
	Size		used;
	Chunk	   *chunk = rows->from_file;

	scd2_read_exact(rows->file, &used, sizeof(Size));
	if (chunk == NULL || chunk->size < used)
		chunk = rows->from_file = make_chunk(rows, Max(used, MAX_CHUNK));
	scd2_read_exact(rows->file, chunk->data, used);
	chunk->used = used;
	rows->left_in_file--;
	return chunk;
}

/*
 * Goes to the next chunk; false: there is none. Rows of the one before are gone.
 */
bool
scd2_rows_next_chunk(Scd2Rows *rows)
{
	rows->at = 0;
	if (rows->next_kept != NULL)
	{
		rows->reading = rows->next_kept;
		rows->next_kept = rows->next_kept->next;
	}
	else if (rows->left_in_file > 0)
		rows->reading = read_chunk(rows);
	else if (!rows->filling_read)
	{
		rows->filling_read = true;
		rows->reading = rows->filling;
	}
	else
		return false;
	return true;
}

/*
 * The next row of the chunk; false: there is none. It lives as long as the chunk.
 */
bool
scd2_rows_next(Scd2Rows *rows, HeapTuple tuple)
{
	Chunk	   *chunk = rows->reading;
	char	   *at = chunk->data + rows->at;

	if (rows->at == chunk->used)
		return false;
	tuple->t_len = *(uint32 *) at;
	tuple->t_data = (HeapTupleHeader) (at + ROW_HEADER);
	tuple->t_tableOid = InvalidOid;
	ItemPointerSetInvalid(&tuple->t_self);
	rows->at += ROW_HEADER + MAXALIGN(tuple->t_len);
	return true;
}

/* The chunk at hand as it is kept, until the next is read. */
const char *
scd2_rows_chunk(const Scd2Rows *rows, Size *size)
{
	*size = rows->reading->used;
	return rows->reading->data;
}

/* Adds the rows of a chunk that another buffer had. It need not be aligned. */
void
scd2_rows_add_chunk(Scd2Rows *rows, const char *chunk, Size size)
{
	for (Size at = 0; at < size;)
	{
		uint32		len = 0;

		if (size - at > ROW_HEADER)
			memcpy(&len, chunk + at, sizeof(len));
		if (len < SizeofHeapTupleHeader || len > size - at - ROW_HEADER)
			elog(ERROR, "a chunk of rows is damaged");
		at += ROW_HEADER;
		memcpy(scd2_rows_add(rows, len), chunk + at, len);
		at += MAXALIGN(len);
	}
}

/* Removes the file. Memory goes with the context. */
void
scd2_rows_end(Scd2Rows *rows)
{
	if (rows->file != NULL)
		BufFileClose(rows->file);
	rows->file = NULL;
}
