/*
 * memory.h
 *		What the capture worker does with memory it has freed.
 */
#ifndef SCD2_CAPTURE_MEMORY_H
#define SCD2_CAPTURE_MEMORY_H

extern void scd2_memory_keep(void);
extern void scd2_memory_give_back(bool busy);

#endif							/* SCD2_CAPTURE_MEMORY_H */
