/*
 * decoder.h
 *		The slot and its decoding context.
 */
#ifndef SCD2_CAPTURE_DECODER_H
#define SCD2_CAPTURE_DECODER_H

#include "access/xlogdefs.h"
#include "capture/batch.h"

extern XLogRecPtr scd2_decoder_create_slot(const char *slot);
extern void scd2_decoder_drop_slot(const char *slot);
extern void scd2_decoder_open(const char *slot, XLogRecPtr start);
extern bool scd2_decoder_read(Scd2Batch *batch, int max_changes);
extern XLogRecPtr scd2_decoder_reached(void);
extern XLogRecPtr scd2_decoder_at(void);
extern Size scd2_decoder_spare_memory(void);
extern bool scd2_decoder_saw_others(void);
extern void scd2_decoder_forget_others(void);
extern void scd2_decoder_confirm(XLogRecPtr upto);
extern XLogRecPtr scd2_decoder_confirmed(void);
extern uint64 scd2_decoder_spilled(void);
extern void scd2_decoder_settle_caches(void);

#endif							/* SCD2_CAPTURE_DECODER_H */
