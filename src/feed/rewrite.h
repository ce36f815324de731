/*
 * rewrite.h
 *		Which columns an ALTER TABLE that rewrites its table gives values that the log does not show.
 */
#ifndef SCD2_FEED_REWRITE_H
#define SCD2_FEED_REWRITE_H

#include "nodes/nodes.h"

extern char *scd2_rewrite_begin(Node *statement);
extern void scd2_rewrite_end(char *outer);

#endif							/* SCD2_FEED_REWRITE_H */
