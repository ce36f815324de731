/*
 * plugin.h
 *		The output plugin: from decoded changes to the batch.
 */
#ifndef SCD2_CAPTURE_PLUGIN_H
#define SCD2_CAPTURE_PLUGIN_H

#include "capture/batch.h"

/* Connects the plugin with the worker's batch; before that it refuses to start. */
extern void scd2_plugin_attach(Scd2Batch *batch);

/* The relation whose inserts are control records. In a transaction. */
extern void scd2_plugin_find_control(List *settled);

#endif							/* SCD2_CAPTURE_PLUGIN_H */
