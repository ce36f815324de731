# pg_scd2: build, install, try and test.
#
#   make, make install     for the server of PG_CONFIG (default: pg_config)
#   make demo              the story of a customers table on a throwaway server
#   make check             every test on throwaway servers; SUITES="regress tap" and TESTS="names" choose among them
#   make check-long        tests that take minutes: load beside captured tables, roles that do what they can think of
#   make check-assert      the same on a server with assertions, then some of it under valgrind and sanitizers: test/assert
#   make installcheck      the regression tests on a running server that has the extension installed and preloaded
#   make fuzz              the timeline engine against its definition, until stopped
#   make bench             the measurements of the README
#   make matrix            build and test on PostgreSQL 17 and 18, in chroots made by debootstrap (root)
#   make lint, make format layout and checks of the sources
#
# demo, check and bench install nothing into the system: they work on a private copy of the server's files in tmp_check.

EXTENSION    = pg_scd2
EXTVERSION   = 0.2.0
MODULE_big   = pg_scd2
OBJS         = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
DATA         = $(sort $(wildcard src/sql/released/*.sql))
DATA_built   = pg_scd2--$(EXTVERSION).sql $(UPDATES)
UPDATES      = $(patsubst src/sql/released/pg_scd2--%.sql,pg_scd2--%--$(EXTVERSION).sql,$(DATA))
PGFILEDESC   = "pg_scd2 - change data feed and slowly changing dimensions"

PG_CPPFLAGS  = -I$(srcdir)/src -DSCD2_VERSION='"$(EXTVERSION)"' $(if $(ASSERTS),-DUSE_ASSERT_CHECKING)
PG_CFLAGS    = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers $(WERROR)

# A script named "setup" comes first.
REGRESS      = $(sort $(filter setup,$(all_regress))) $(filter-out setup,$(all_regress))
all_regress  = $(sort $(basename $(notdir $(wildcard sql/*.sql))))
REGRESS_OPTS = $(if $(filter setup,$(all_regress)),,--load-extension=pg_scd2)
EXTRA_CLEAN  = tmp_check

PG_CONFIG   ?= pg_config
export PG_CONFIG

# Scripts that need no server to be there yet, hence not PGXS.
SCRIPTED     = check check-long check-assert demo bench matrix lint format fuzz
ifneq (,$(filter $(SCRIPTED),$(MAKECMDGOALS)))

.PHONY: $(MAKECMDGOALS)
check check-assert: export SUITES := $(SUITES)
check check-long check-assert: export TESTS := $(TESTS)
check demo bench matrix:
	@test/$@$(if $(wildcard test/$@/.),/run)
check-long:
	@SUITES=long test/check
check-assert:
	@test/assert
lint format:
	@test/$@
fuzz:
	@test/fuzz/run --forever
ifneq (,$(filter-out $(SCRIPTED),$(MAKECMDGOALS)))
$(filter-out $(SCRIPTED),$(MAKECMDGOALS)):
	@$(MAKE) $@
endif

else

PGXS        := $(shell $(PG_CONFIG) --pgxs)
ifeq (,$(PGXS))
$(error $(PG_CONFIG) did not answer: install the server's development files, or give PG_CONFIG=/path/to/pg_config)
endif
include $(PGXS)

# The install script is kept in parts, one per concern, in the order of their numbers.
PARTS        = $(sort $(wildcard src/sql/*.sql))
pg_scd2--$(EXTVERSION).sql: $(PARTS)
	cat $^ > $@

# Each released version is updated to this one by a script that is made of the same parts (src/sql/update/make). Their
# install scripts never change again and are installed too: a dump of an old version whose rows do not fit a newer one
# is restored after CREATE EXTENSION pg_scd2 VERSION 'old', then updated. C functions that they name stay in the library.
$(UPDATES): pg_scd2--%--$(EXTVERSION).sql: src/sql/update/make $(PARTS) $(wildcard src/sql/update/*.sql)
	perl $< $* $(PARTS) > $@
.DELETE_ON_ERROR:

# Headers are few and everybody's; the version is in the Makefile.
$(OBJS): $(wildcard src/*.h src/*/*.h) Makefile

endif
