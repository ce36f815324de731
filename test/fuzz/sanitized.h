/*
 * sanitized.h
 *		palloc() that the address sanitizer sees (gcc -include).
 *
 * A memory context takes blocks from malloc() and cuts chunks from them, so the sanitizer would take
 * any address in a block for good. Here each chunk is a block, freed with its context. What the
 * server itself allocates for us (lists, strings) stays where it is, and may be given to pfree() as
 * well: a chunk of ours is known by the words before it.
 */
#ifndef SCD2_SANITIZED_H
#define SCD2_SANITIZED_H

#include "postgres.h"

#include "utils/memutils.h"

#define SANITIZED_MAGIC	UINT64CONST(0x5363643253616e69)

typedef struct SanitizedChunk
{
	uint64		magic;
	struct SanitizedChunk **owner;	/* the context's callback holds a pointer to this; NULL there once it is freed */
} SanitizedChunk;

static inline void
sanitized_release(void *owner)
{
	SanitizedChunk **chunk = owner;

	free(*chunk);
	*chunk = NULL;
}

static inline void *
sanitized_alloc(Size size, bool zero)
{
	struct
	{
		MemoryContextCallback callback;
		SanitizedChunk *chunk;
	}		   *held = MemoryContextAlloc(CurrentMemoryContext, sizeof(*held));

	held->chunk = zero ? calloc(1, sizeof(SanitizedChunk) + size) : malloc(sizeof(SanitizedChunk) + size);
	if (held->chunk == NULL)
		elog(ERROR, "out of memory");
	held->chunk->magic = SANITIZED_MAGIC;
	held->chunk->owner = &held->chunk;
	held->callback.func = sanitized_release;
	held->callback.arg = &held->chunk;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &held->callback);
	return held->chunk + 1;
}

/* The words before a chunk of the server's are its own header: it may be read, but is unknown to the sanitizer. */
__attribute__((no_sanitize("address")))
static inline void
sanitized_free(void *pointer)
{
	SanitizedChunk *chunk = (SanitizedChunk *) pointer - 1;

	if (chunk->magic == SANITIZED_MAGIC)
		sanitized_release(chunk->owner);
	else
		pfree(pointer);
}

#define palloc(size)	sanitized_alloc(size, false)
#define palloc0(size)	sanitized_alloc(size, true)
#define palloc_extended(size, flags)	sanitized_alloc(size, ((flags) & MCXT_ALLOC_ZERO) != 0)
#define pfree(pointer)	sanitized_free(pointer)

#endif
