/*
 * partial.h
 *		Upserts that do not send all columns: NULL means "not sent" in some.
 */
#ifndef SCD2_FLOW_PARTIAL_H
#define SCD2_FLOW_PARTIAL_H

#include "flow/timeline.h"

extern bool scd2_sends(const Scd2Shape *shape, const Scd2Image *image, int column);
extern bool scd2_sends_all(const Scd2Shape *shape, const Scd2Image *image);
extern Scd2Image *scd2_image_resolve(const Scd2Shape *shape, Scd2Image *image, const Scd2Image *before);
extern Scd2Image *scd2_image_merge(const Scd2Shape *shape, Scd2Image *a, Scd2Image *b, bool *conflict);

extern void scd2_partial_event(Scd2Timeline *timeline, const Scd2Event *event);
extern void scd2_partial_end(Scd2Timeline *timeline);

#endif							/* SCD2_FLOW_PARTIAL_H */
