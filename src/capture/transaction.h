/*
 * transaction.h
 *		Transactions in which the capture worker writes.
 */
#ifndef SCD2_CAPTURE_TRANSACTION_H
#define SCD2_CAPTURE_TRANSACTION_H

extern void scd2_begin_write(void);
extern void scd2_commit_write(void);

#endif							/* SCD2_CAPTURE_TRANSACTION_H */
