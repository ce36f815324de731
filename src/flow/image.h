/*
 * image.h
 *		The stored image of a row's selected columns: copying and comparing.
 */
#ifndef SCD2_FLOW_IMAGE_H
#define SCD2_FLOW_IMAGE_H

/* What has to be known of the columns. */
typedef struct Scd2Shape
{
	int			ncolumns;
	int16	   *typlen;
	bool	   *typbyval;
	char	   *typalign;
	bool	   *tracked;		/* a difference in this column opens a version */
	bool	   *is_key;
	bool	   *ignores_null;	/* NULL says nothing in this column of an event; NULL: in none */
} Scd2Shape;

/* One allocation, values behind it; "borrowed" images are not freed by who drops them. */
typedef struct Scd2Image
{
	Datum	   *values;
	bool	   *isnull;
	bool		borrowed;
	bool		whole;			/* NULL is a value in each column, also where events do not mean it (partial.c) */
} Scd2Image;

extern Scd2Image *scd2_image_copy(const Scd2Shape *shape, const Datum *values, const bool *isnull);
extern void scd2_image_drop(Scd2Image *image);
extern bool scd2_image_equal(const Scd2Shape *shape, const Scd2Image *a, const Datum *values, const bool *isnull);
extern bool scd2_image_equal_tracked(const Scd2Shape *shape, const Scd2Image *a, const Scd2Image *b);

extern bool scd2_image_equal_untracked(const Scd2Shape *shape, const Scd2Image *a, const Scd2Image *b);
extern Scd2Image *scd2_image_combine(const Scd2Shape *shape, const Scd2Image *tracked, const Scd2Image *untracked);
extern bool scd2_column_equal(const Scd2Shape *shape, int i, Datum a, bool anull, Datum b, bool bnull);
extern int	scd2_column_compare(const Scd2Shape *shape, int i, const Scd2Image *a, const Scd2Image *b);
extern int	scd2_image_compare(const Scd2Shape *shape, const Scd2Image *a, const Scd2Image *b);
extern int	scd2_datum_image_compare(Datum a, Datum b, bool typbyval, int16 typlen);

#endif							/* SCD2_FLOW_IMAGE_H */
