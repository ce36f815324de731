# pg_scd2: build, install, try and test. See README.md for what each target does.

EXTENSION    = pg_scd2
EXTVERSION   = 0.1.0
MODULE_big   = pg_scd2
OBJS         = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
DATA_built   = pg_scd2--$(EXTVERSION).sql
EXTRA_CLEAN  = pg_scd2--$(EXTVERSION).sql
PGFILEDESC   = "pg_scd2 - change data feed and slowly changing dimensions"

PG_CPPFLAGS  = -I$(srcdir)/src
PG_CFLAGS    = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers $(WERROR)

PG_CONFIG   ?= pg_config
PGXS        := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# The install script is kept in parts, one per concern, in the order of their numbers.
pg_scd2--$(EXTVERSION).sql: $(sort $(wildcard src/sql/*.sql))
	cat $^ > $@
