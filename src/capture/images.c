/*
 * images.c
 *		Whole row images from what the log holds.
 *
 * An old image, under REPLICA IDENTITY FULL, is flat: the server inlined what was out of line. In a
 * new image an out-of-line value is one of two things:
 *
 *   VARTAG_INDIRECT   written by this transaction; it points into the decoder's memory, which goes after the callback: copied
 *   VARTAG_ONDISK     not changed; its chunks may be vacuumed away at any time, so it is never followed. The old image of the same change has the value. (With an old
 *                     image that lacks it there is no way to a whole image: the feed fails rather than store a hole.)
 *
 * Everything here is in the per-change memory context.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"

#include "compat.h"
#include "capture/images.h"

/* Whether an image can go into the feed as it stands. */
bool
scd2_image_is_row(const Scd2Source *source, HeapTuple tuple)
{
	return source->as_is && !HeapTupleHasExternal(tuple) &&
		HeapTupleHeaderGetNatts(tuple->t_data) == source->natts;
}

/* Takes the old image apart. */
void
scd2_image_old(Scd2Source *source, TupleDesc desc, HeapTuple tuple)
{
	heap_deform_tuple(tuple, desc, source->old_values, source->old_isnull);
}

/*
 * Takes the new image apart and makes it whole, with the old one's help if there is one. False: a
 * value is missing.
 */
bool
scd2_image_new(Scd2Source *source, TupleDesc desc, HeapTuple tuple, bool has_old)
{
	heap_deform_tuple(tuple, desc, source->values, source->isnull);
	if (!HeapTupleHasExternal(tuple))
		return true;

	for (int i = 0; i < source->nvarlena; i++)
	{
		int			att = source->varlena[i];
		struct varlena *value;

		if (source->isnull[att])
			continue;
		value = (struct varlena *) DatumGetPointer(source->values[att]);
		if (VARATT_IS_EXTERNAL_INDIRECT(value) || VARATT_IS_EXTERNAL_EXPANDED(value))
			source->values[att] = PointerGetDatum(detoast_external_attr(value));
		else if (VARATT_IS_EXTERNAL_ONDISK(value))
		{
			if (!has_old || source->old_isnull[att] ||
				VARATT_IS_EXTERNAL(DatumGetPointer(source->old_values[att])))
				return false;
			source->values[att] = source->old_values[att];
		}
	}
	return true;
}

/* Lays an image out as the feed's row, in feed->values and feed->isnull. */
void
scd2_image_to_row(Scd2Source *source, bool old)
{
	Scd2Feed   *feed = source->feed;
	Datum	   *values = old ? source->old_values : source->values;
	bool	   *isnull = old ? source->old_isnull : source->isnull;

	for (int i = SCD2_META_COLUMNS; i < source->ncolumns; i++)
	{
		int			att = source->attribute[i];

		feed->isnull[i] = att < 0 || isnull[att];
		feed->values[i] = feed->isnull[i] ? (Datum) 0 : values[att];
	}
}

/*
 * Bytes of the values that scd2_image_to_row() has laid out: they are whole, and can be more
 * together than the server puts into one row.
 */
Size
scd2_image_size(const Scd2Source *source)
{
	const Scd2Feed *feed = source->feed;
	Size		size = 0;

	for (int i = SCD2_META_COLUMNS; i < source->ncolumns; i++)
		if (!feed->isnull[i] && TupleDescAttr(feed->layout, i)->attlen == -1)
			size += VARSIZE_ANY(DatumGetPointer(feed->values[i]));
	return size;
}
