/*
 * transaction.c
 *		Transactions in which the capture worker writes.
 *
 * They have a snapshot, and what they write is marked, so that our decoder passes it by.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/snapmgr.h"

#include "capture/transaction.h"
#include "worker/marks.h"

void
scd2_begin_write(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	scd2_mark_writes(true);
}

void
scd2_commit_write(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	scd2_mark_writes(false);
}
