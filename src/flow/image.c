/*
 * image.c
 *		The stored image of a row's selected columns: copying and comparing.
 *
 * Equality is that of record_image_eq: it exists for every type, sees 'Ana' -> 'ANA' in citext and
 * 1.0 -> 1.00 in numeric, and NULL equals NULL. (A value that is compressed or stored out of line
 * equals the plain one: datum_image_eq looks through that.)
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "compat.h"
#include "flow/image.h"

/*
 * Copies into the current memory context, in one piece: a hot key goes through thousands of images,
 * each freed as soon as the next has come.
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
	image->borrowed = image->whole = false;
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

/*
 * Are two values of a column the same image?
 */
bool
scd2_column_equal(const Scd2Shape *shape, int i, Datum a, bool anull, Datum b, bool bnull)
{
	if (anull || bnull)
		return anull == bnull;
	return datum_image_eq(a, b, shape->typbyval[i], shape->typlen[i]);
}

bool
scd2_image_equal(const Scd2Shape *shape, const Scd2Image *a, const Datum *values, const bool *isnull)
{
	for (int i = 0; i < shape->ncolumns; i++)
		if (!scd2_column_equal(shape, i, a->values[i], a->isnull[i], values[i], isnull[i]))
			return false;
	return true;
}

bool
scd2_image_equal_tracked(const Scd2Shape *shape, const Scd2Image *a, const Scd2Image *b)
{
	for (int i = 0; i < shape->ncolumns; i++)
		if (shape->tracked[i] &&
			!scd2_column_equal(shape, i, a->values[i], a->isnull[i], b->values[i], b->isnull[i]))
			return false;
	return true;
}

bool
scd2_image_equal_untracked(const Scd2Shape *shape, const Scd2Image *a, const Scd2Image *b)
{
	for (int i = 0; i < shape->ncolumns; i++)
		if (!shape->tracked[i] &&
			!scd2_column_equal(shape, i, a->values[i], a->isnull[i], b->values[i], b->isnull[i]))
			return false;
	return true;
}

/*
 * The tracked columns of one image and the others of another, in the current memory context.
 * Borrows the values: it lives no longer than both.
 */
Scd2Image *
scd2_image_combine(const Scd2Shape *shape, const Scd2Image *tracked, const Scd2Image *untracked)
{
	int			n = shape->ncolumns;
	Scd2Image  *image = palloc(sizeof(Scd2Image));

	image->values = palloc(n * sizeof(Datum));
	image->isnull = palloc(n * sizeof(bool));
	image->borrowed = true;
	image->whole = tracked->whole;
	for (int i = 0; i < n; i++)
	{
		const Scd2Image *from = shape->tracked[i] ? tracked : untracked;

		image->values[i] = from->values[i];
		image->isnull[i] = from->isnull[i];
	}
	return image;
}

/* By bytes, as record_image_ops orders. */
int
scd2_datum_image_compare(Datum a, Datum b, bool typbyval, int16 typlen)
{
	const char *abytes;
	const char *bbytes;
	Size		alen;
	Size		blen;
	int			order;

	if (typbyval)
		return a == b ? 0 : a < b ? -1 : 1;
	if (typlen == -1)
	{
		struct varlena *avalue = PG_DETOAST_DATUM_PACKED(a);
		struct varlena *bvalue = PG_DETOAST_DATUM_PACKED(b);

		abytes = VARDATA_ANY(avalue);
		bbytes = VARDATA_ANY(bvalue);
		alen = VARSIZE_ANY_EXHDR(avalue);
		blen = VARSIZE_ANY_EXHDR(bvalue);
	}
	else
	{
		abytes = DatumGetPointer(a);
		bbytes = DatumGetPointer(b);
		alen = datumGetSize(a, false, typlen);
		blen = datumGetSize(b, false, typlen);
	}
	order = memcmp(abytes, bbytes, Min(alen, blen));
	return order != 0 ? order : alen < blen ? -1 : alen > blen;
}

/*
 * Two values of a column, NULL the greatest.
 */
int
scd2_column_compare(const Scd2Shape *shape, int i, const Scd2Image *a, const Scd2Image *b)
{
	if (a->isnull[i] || b->isnull[i])
		return (int) a->isnull[i] - (int) b->isnull[i];
	return scd2_datum_image_compare(a->values[i], b->values[i], shape->typbyval[i], shape->typlen[i]);
}

/*
 * The order of record_image_ops over all columns: it decides between events that nothing else tells apart.
 */
int
scd2_image_compare(const Scd2Shape *shape, const Scd2Image *a, const Scd2Image *b)
{
	int			order = 0;

	for (int i = 0; i < shape->ncolumns && order == 0; i++)
		order = scd2_column_compare(shape, i, a, b);
	return order;
}
