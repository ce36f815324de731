/*
 * names.h
 *		Names of objects, for messages and as SQL text. Results are in the current memory context.
 */
#ifndef SCD2_NAMES_H
#define SCD2_NAMES_H

extern char *scd2_relation_name(Oid relid);
extern char *scd2_collation_name(Oid collation);

#endif							/* SCD2_NAMES_H */
