/*
 * images.h
 *		Whole row images from what the log holds.
 */
#ifndef SCD2_CAPTURE_IMAGES_H
#define SCD2_CAPTURE_IMAGES_H

#include "access/htup.h"
#include "capture/captured.h"

extern bool scd2_image_is_row(const Scd2Source *source, HeapTuple tuple);
extern void scd2_image_old(Scd2Source *source, TupleDesc desc, HeapTuple tuple);
extern bool scd2_image_new(Scd2Source *source, TupleDesc desc, HeapTuple tuple, bool has_old);
extern void scd2_image_to_row(Scd2Source *source, bool old);
extern Size scd2_image_size(const Scd2Source *source);

#endif							/* SCD2_CAPTURE_IMAGES_H */
