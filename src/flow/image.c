/*
 * image.c
 *		The stored image of a row's selected columns: copying and comparing.
 *
 * Equality is that of record_image_eq: it exists for every type, sees 'Ana' -> 'ANA' in citext and 1.0 -> 1.00 in numeric, and NULL equals NULL. (A value that is
 * compressed or stored out of line equals the plain one: datum_image_eq looks through that.)
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"

#include "flow/image.h"

/*
 * Copies into the current memory context, in one piece: a hot key goes through thousands of images, each freed as soon as the next has come.
 */
Scd2Image *
scd2_image_copy(const Scd2Shape *shape, const Datum *values, const bool *isnull)
{
	int			n = shape->ncolumns;
	Size		size = MAXALIGN(sizeof(Scd2Image)) + MAXALIGN(n * sizeof(Datum)) + MAXALIGN(n * sizeof(bool));
	Size		at = size;
	Scd2Image  *image;
	char	   *base;

	for (int i = 0; i < n; i++)
		if (!isnull[i] && !shape->typbyval[i])
			size += MAXALIGN(datumGetSize(values[i], false, shape->typlen[i]));
	base = palloc_extended(size, MCXT_ALLOC_HUGE);
	image = (Scd2Image *) base;
	image->values = (Datum *) (base + MAXALIGN(sizeof(Scd2Image)));
	image->isnull = (bool *) ((char *) image->values + MAXALIGN(n * sizeof(Datum)));
	image->borrowed = false;
	memcpy(image->isnull, isnull, n * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		Size		len;

		image->values[i] = values[i];
		if (isnull[i] || shape->typbyval[i])
			continue;
		len = datumGetSize(values[i], false, shape->typlen[i]);
		memcpy(base + at, DatumGetPointer(values[i]), len);
		image->values[i] = PointerGetDatum(base + at);
		at += MAXALIGN(len);
	}
	return image;
}

void
scd2_image_drop(Scd2Image *image)
{
	if (image != NULL && !image->borrowed)
		pfree(image);
}

static bool
column_equal(const Scd2Shape *shape, int i, Datum a, bool anull, Datum b, bool bnull)
{
	if (anull || bnull)
		return anull == bnull;
	return datum_image_eq(a, b, shape->typbyval[i], shape->typlen[i]);
}

bool
scd2_image_equal(const Scd2Shape *shape, const Scd2Image *a, const Datum *values, const bool *isnull)
{
	for (int i = 0; i < shape->ncolumns; i++)
		if (!column_equal(shape, i, a->values[i], a->isnull[i], values[i], isnull[i]))
			return false;
	return true;
}

bool
scd2_image_equal_tracked(const Scd2Shape *shape, const Scd2Image *a, const Scd2Image *b)
{
	for (int i = 0; i < shape->ncolumns; i++)
		if (shape->tracked[i] &&
			!column_equal(shape, i, a->values[i], a->isnull[i], b->values[i], b->isnull[i]))
			return false;
	return true;
}
