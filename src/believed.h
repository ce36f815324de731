/*
 * believed.h
 *		Relations of users that are read below the executor, compared with what we believe of them.
 */
#ifndef SCD2_BELIEVED_H
#define SCD2_BELIEVED_H

#include "access/tupdesc.h"
#include "utils/rel.h"

/* A column as it must be. */
typedef struct Scd2BelievedColumn
{
	const char *name;
	AttrNumber	attnum;			/* 0: any */
	Oid			type;			/* or a domain over it */
	int32		typmod;			/* or a wider one */
	Oid			collation;		/* invalid: any */
	bool		not_null;
} Scd2BelievedColumn;

/* What a relation must be besides its columns. */
#define SCD2_BELIEVED_HEAP			(1 << 0)	/* its access method */
#define SCD2_BELIEVED_STANDALONE	(1 << 1)	/* neither a partition nor a child */

/* How a relation differs from what is believed of it. */
typedef struct Scd2Misfit
{
	int			sqlerrcode;
	char	   *what;			/* a message */
	char	   *remedy;			/* a statement; NULL: none is known */
} Scd2Misfit;

extern bool scd2_is_wider(Oid type, int32 from, int32 to);
extern bool scd2_columns_fit(Relation rel, const char *label, const Scd2BelievedColumn *columns, int n, Scd2Misfit *misfit);
extern bool scd2_table_fits(Relation rel, const char *label, int believed, Scd2Misfit *misfit);
extern bool scd2_is_of_type(Oid type, Oid believed);
extern void scd2_check_result(TupleDesc desc, int from, int n, const Oid *types, const char *what);
extern Datum scd2_result_value(uint64 row, int column, Oid type, bool *isnull);

#endif							/* SCD2_BELIEVED_H */
