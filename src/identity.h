/*
 * identity.h
 *		Running code that a user wrote with that user's rights.
 */
#ifndef SCD2_IDENTITY_H
#define SCD2_IDENTITY_H

typedef struct Scd2Identity
{
	Oid			userid;
	int			sec_context;
	int			guc_nestlevel;
	int			code_rules;		/* of what may run (worker/code.h), begun with this */
} Scd2Identity;

extern bool scd2_has_been_another;

extern void scd2_become(Oid role, Scd2Identity *before);
extern void scd2_trust_code(Scd2Identity *before);
extern void scd2_become_self_again(const Scd2Identity *before);

#endif							/* SCD2_IDENTITY_H */
