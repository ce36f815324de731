/*
 * memory.c
 *		What the capture worker does with memory it has freed: keeps it between transactions, gives
 *		it back at rest.
 *
 * Decoding a large transaction takes hundreds of megabytes and frees them at its end. The C library
 * hands blocks of that size back to the system at once, and getting them again for the next
 * transaction, page by page, was a fifth of the time of capture (a million inserts and a million
 * updates in two transactions: 0.9 s of system time, 0.5 s with what is here). So freed memory stays
 * in the heap while transactions come, and goes back when none came for a while. The worker never
 * holds more than it did at its peak, which decoding_work_mem bounds.
 *
 * With another C library than GNU's nothing is changed.
 */
#include "postgres.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "capture/memory.h"

#define LARGEST_IN_HEAP	(32 * 1024 * 1024)	/* the most that M_MMAP_THRESHOLD takes */
#define GROW_BY			(16 * 1024 * 1024)

/* From now on freed memory stays with the process. Once, at the worker's start. */
void
scd2_memory_keep(void)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, LARGEST_IN_HEAP);
	mallopt(M_TRIM_THRESHOLD, PG_INT32_MAX);
	mallopt(M_TOP_PAD, GROW_BY);
#endif
}

/* Gives what is free back to the system. Takes microseconds when little is. */
void
scd2_memory_give_back(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
