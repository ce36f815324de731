/*
 * memory.c
 *		What the capture worker does with memory it has freed: keeps it between transactions, gives
 *		it back at rest.
 *
 * Decoding a large transaction takes hundreds of megabytes and frees them at its end. The C library
 * hands blocks of that size back to the system at once, and getting them again for the next
 * transaction, page by page, was a fifth of the time of capture (a million inserts and a million
 * updates in two transactions: 0.9 s of system time, 0.5 s with what is here). So freed memory stays
 * in the heap while there is log to be decoded, and what is more than KEEP goes back when its end is
 * reached, whether more comes soon or not. The process is asked at most once in LOOK_EVERY, and where
 * the end is never reached once in LOOK_EVERY_BUSY. Until then the worker holds no more than it did at
 * its peak, which decoding_work_mem bounds.
 *
 * With another C library than GNU's nothing is changed.
 */
#include "postgres.h"

#ifdef __GLIBC__
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>
#endif

#include "utils/timestamp.h"

#include "capture/memory.h"

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
#define CAN_BE_ASKED
#endif

#define LARGEST_IN_HEAP	(32 * 1024 * 1024)	/* the most that M_MMAP_THRESHOLD takes */
#define GROW_BY			(16 * 1024 * 1024)
#define KEEP			((Size) 64 * 1024 * 1024)
#define LOOK_EVERY		USECS_PER_SEC
#define LOOK_EVERY_BUSY (10 * USECS_PER_SEC)

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

#ifdef CAN_BE_ASKED

/* Bytes of memory of its own that the process has from the system; 0: not known. */
static Size
resident(void)
{
	char		line[128];
	int			fd = open("/proc/self/statm", O_RDONLY);
	ssize_t		len = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	unsigned long all;
	unsigned long shared;

	if (fd >= 0)
		(void) close(fd);
	if (len <= 0)
		return 0;
	line[len] = '\0';
	if (sscanf(line, "%*u %lu %lu", &all, &shared) != 2 || all < shared)
		return 0;
	return (Size) (all - shared) * (Size) sysconf(_SC_PAGESIZE);
}

/* Has the process much more than it uses? */
static bool
has_much(void)
{
	struct mallinfo2 info = mallinfo2();

	return resident() > info.uordblks + info.hblkhd + KEEP;
}

#endif

/*
 * Gives what is free back to the system if it is much and it is time to look. "busy": there is more to be
 * decoded now.
 */
void
scd2_memory_give_back(bool busy)
{
#ifdef CAN_BE_ASKED
	static TimestampTz last = 0;
	TimestampTz now = GetCurrentTimestamp();

	if (now - last < (busy ? LOOK_EVERY_BUSY : LOOK_EVERY))
		return;
	last = now;
	if (has_much())
		malloc_trim(GROW_BY);
#endif
}
