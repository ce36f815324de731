/*
 * compat.h
 *		The only place that asks for the server version. PostgreSQL 15 to 18.
 */
#ifndef SCD2_COMPAT_H
#define SCD2_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "pg_scd2 supports PostgreSQL 15 to 18"
#endif

#endif							/* SCD2_COMPAT_H */
