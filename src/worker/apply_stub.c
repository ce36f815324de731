#include "postgres.h"
#include "worker/worker.h"
void scd2_apply_main(Datum arg) { Scd2WorkerArg a; (void) scd2_worker_begin(&a); for (;;) scd2_worker_wait(-1); }
