# The commands of daily work; each sets up what it needs by itself.
.PHONY: run check test test-languages test-heavy memcheck histories bench lint fmt gen docs fuzz clean install-flexrpc install-libhdfs install-libstrait

# Builds, starts a gateway over Kadoop in ./strait-data, proves it with a round trip
# from Python, and serves until Ctrl-C. LISTEN=HOST:PORT and DATA=DIR change the defaults.
run:
	@scripts/run.sh

# The fast gate: lints and unit tests, some minutes.
check:
	@scripts/check.sh

# CRATE=NAME picks the tests of one room, such as gateway.
test:
	@scripts/test.sh $(CRATE)

# Languages by Thrift's generators, clients in Kotlin, C# and a browser, the packages for Java, Hadoop, C++ and Rust,
# libraries above fsspec, a job of Spark.
# `make test-languages UPDATE=1` rewrites the table of docs/languages.md by the results.
test-languages:
	@scripts/test-languages.sh

# The tests that take too long for every change. STEPS="mount mpi" picks some; SCALE=1 repeats faults and
# schedules ten times as often as the default.
test-heavy:
	@scripts/test-heavy.sh $(STEPS)

# Under valgrind: `unsafe` code of the test kit and for processes and forks, and libflexrpc.
memcheck:
	@scripts/memcheck.sh

# The answers to clients of two gateways while processes fail: STORE=kadoop or hdfs, SECONDS, SEED.
STORE ?= kadoop
histories:
	@scripts/histories.sh $(STORE) $(or $(SECONDS),120) $(or $(SEED),1)

# SUITE=NAME picks one suite; results land in bench/results.
bench:
	@scripts/bench.sh $(SUITE)

lint:
	@scripts/lint.sh

fmt:
	@scripts/fmt.sh

# Rewrites the committed code that is generated from idl/dfs.thrift.
gen:
	@scripts/gen.sh

# Runs the tour (README.md, docs/tour.md) and compares; `make docs UPDATE=1` rewrites its output.
docs:
	@scripts/setup.sh run
	@.venv/bin/python scripts/tour.py $(if $(UPDATE),--update)

# TIME: seconds a target. TARGET=NAME picks one.
TIME ?= 60
fuzz:
	@scripts/fuzz.sh $(TIME) $(TARGET)

# Into PREFIX; DESTDIR=DIR for packagers.
PREFIX ?= /usr/local

# FlexRPC for C programs: library, header, frpcgen, pkg-config and CMake files.
install-flexrpc:
	@DESTDIR="$(DESTDIR)" scripts/install-flexrpc.sh "$(PREFIX)"

# Strait for C programs, with pkg-config and CMake files. MPICC=mpicc adds the library for MPI programs.
install-libstrait:
	@DESTDIR="$(DESTDIR)" MPICC="$(MPICC)" scripts/install-libstrait.sh "$(PREFIX)"

# Hadoop's C library without a JVM; STUB_JVM=1 adds a libjvm.so for programs that want one.
install-libhdfs:
	@scripts/install-libhdfs.sh $(PREFIX) $(if $(STUB_JVM),--stub-jvm)

clean:
	cargo clean
	rm -rf .venv .cache
