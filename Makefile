# Shortcuts; the building itself is CMake's (CMakePresets.json).

TRACE ?= examples/resnet-demo.json.gz
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 300
ATTACK_SECONDS ?= 60
ATTACK_SEED ?= 1
JOBS ?= $(shell nproc)
PYTHON := build/venv/bin/python
# Readers, analyses, and what has code for the processor: SIMD, system calls.
AARCH64_TESTS := test_base test_trace test_trace_import test_trace_import_log test_analyse_memory test_analyse_rank \
  test_analyse_job test_analyse_rules test_inject

# What one checkout has compiled serves another one.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: help demo check check-all program release dev reader aarch64 soak fuzz attack hostile reliability bench deb tarball wheel image \
  packages site install clean

help:
	@echo 'make demo       build the program and show a report of the example trace'
	@echo 'make check      build with sanitizers and run every test'
	@echo 'make check-all  and the second compiler, the thread sanitizer, long runs (SOAK_SECONDS), fuzzing (FUZZ_SECONDS each), an hour of attack, hostile clients'
	@echo 'make bench      run the benchmarks'
	@echo 'make deb        write Debian packages of the program and the library'
	@echo 'make tarball    write a folder that runs from anywhere, as tar.gz'
	@echo 'make wheel      write the Python wheel'
	@echo 'make image      write a container image, with docker, podman or buildah'
	@echo 'make packages   write all of these and try each'
	@echo 'make aarch64    build for aarch64 on x86-64, run its tests in qemu, write its tar.gz, .deb and wheel'
	@echo 'make reader     build what only reads files, as for macOS, and try it'
	@echo 'make site       write the documentation as a site: build/site/README.html'
	@echo 'make install    install under PREFIX ($(PREFIX))'

# A first look: the program and its recorder. `make program` adds the rest to the same folder.
demo:
	scripts/install demo
	cmake --preset release -DPROFGPU_TESTS=OFF -DPROFGPU_TLS=OFF > /dev/null
	cmake --build --preset release -j $(JOBS) --target profgpu profgpu_inject
	build/release/profgpu analyze $(TRACE)

program:
	scripts/install program
	cmake --preset release -DPROFGPU_TESTS=OFF -DPROFGPU_TLS=ON > /dev/null
	cmake --build --preset release -j $(JOBS)

release:
	cmake --preset release -DPROFGPU_TESTS=ON -DPROFGPU_TLS=ON > /dev/null
	cmake --build --preset release -j $(JOBS) --target profgpu profgpu_library share_files kineto-sim pgt-sample \
	  nvml_stub profgpu_inject inject_subjects cuda_stubs measure_stubs

dev:
	cmake --preset dev > /dev/null
	cmake --build --preset dev -j $(JOBS)

check:
	scripts/install check
	$(MAKE) dev release
	ctest --preset dev -j $(JOBS)
	ctest --preset release -L checks -j $(JOBS)
	scripts/run-pytest
	scripts/run-page-tests
	$(MAKE) attack

check-all:
	scripts/install all
	$(MAKE) check
	# The thread sanitizer's build is clang's too, and a warning fails it.
	cmake --preset tsan > /dev/null
	cmake --build --preset tsan -j $(JOBS)
	ctest --preset tsan -LE checks -j $(JOBS)
	$(MAKE) reader packages aarch64
	$(MAKE) soak fuzz hostile
	$(MAKE) attack ATTACK_SECONDS=3600 ATTACK_SEED=2

soak: release
	SOAK_SECONDS=$(SOAK_SECONDS) $(PYTHON) -m pytest -q -p no:cacheprovider --junitxml build/reliability/soak.xml tests/soak/soak.py

fuzz:
	cmake --preset fuzz > /dev/null
	cmake --build --preset fuzz -j $(JOBS) --target fuzz_targets
	scripts/fuzz build/fuzz $(FUZZ_SECONDS)

# Damaged files and random command lines; what breaks a promise is kept in build/attack.
attack:
	$(PYTHON) tests/attack/attack.py --seconds $(ATTACK_SECONDS) --seed $(ATTACK_SEED) --keep build/attack --result build/reliability/attack.json

# The long form of what every test run does in short: kill -9 at 200 moments of each command, 10,000 connections.
hostile: release
	KILL_MOMENTS=200 ATTACK_CONNECTIONS=10000 scripts/run-pytest --junitxml build/reliability/hostile.xml tests/python/test_killed.py \
	  tests/python/test_hostile_clients.py tests/python/test_hostile_servers.py tests/python/test_scarce.py tests/python/test_clock_jumps.py

# Writes what these found into docs/reliability.md.
reliability: attack fuzz hostile soak
	scripts/reliability

bench:
	scripts/install bench
	cmake --preset bench > /dev/null
	cmake --build --preset bench -j $(JOBS) --target profgpu kineto-sim bench_programs
	scripts/bench build/bench

deb: program
	cd build/release && cpack -G DEB -D CPACK_OUTPUT_FILE_PREFIX=$(CURDIR)/build/dist

tarball: program
	scripts/tarball

wheel:
	scripts/install check
	$(MAKE) release
	scripts/wheel

image:
	scripts/image

# Each package, used as someone who just got it would.
packages:
	scripts/install all
	$(MAKE) wheel tarball deb
	scripts/try-package wheel
	scripts/try-package tarball
	scripts/try-package deb
	$(MAKE) image
	scripts/try-package image

aarch64:
	scripts/install aarch64
	scripts/sysroot-aarch64
	cmake --preset aarch64 -DPROFGPU_TESTS=ON > /dev/null
	cmake --build --preset aarch64 -j $(JOBS) --target profgpu profgpu_library share_files $(AARCH64_TESTS)
	scripts/check-aarch64
	scripts/tarball build/aarch64
	cd build/aarch64 && cpack -G DEB -D CPACK_OUTPUT_FILE_PREFIX=$(CURDIR)/build/dist
	scripts/install check
	scripts/wheel build/aarch64
	for kind in tarball deb wheel; do scripts/try-package $$kind aarch64 || exit 1; done

# What reads files, without the parts that collect.
reader:
	cmake --preset reader > /dev/null
	cmake --build --preset reader -j $(JOBS)
	scripts/check-reader

# A warning, such as a link to a page that is not there, is an error.
site:
	scripts/install check
	build/venv/bin/sphinx-build -W --keep-going -q -b html docs build/site

install: program
	cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
