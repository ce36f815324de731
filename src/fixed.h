/*
 * fixed.h
 *		Names that stay what they are until the transaction ends. Results are in the current memory context.
 */
#ifndef SCD2_FIXED_H
#define SCD2_FIXED_H

extern char *scd2_fixed_relation_name(Oid relid);
extern char *scd2_fixed_schema_name(Oid schema);
extern char *scd2_fixed_collation_name(Oid collation);
extern char *scd2_fixed_type_name(Oid type, int32 typmod);

#endif							/* SCD2_FIXED_H */
