/*
 * kept_layout.h
 *		The columns of rows that are kept aside, as bytes.
 */
#ifndef SCD2_FEED_KEPT_LAYOUT_H
#define SCD2_FEED_KEPT_LAYOUT_H

#include "catalog/pg_attribute.h"

#include "capture/batch.h"

extern bool scd2_column_type_is_gone(Form_pg_attribute att);
extern bytea *scd2_layout_pack(const Scd2Feed *feed);
extern void scd2_layout_unpack(Scd2Feed *feed, const bytea *packed);
extern void scd2_layout_find_columns(Scd2Feed *feed);

#endif							/* SCD2_FEED_KEPT_LAYOUT_H */
