.DEFAULT_GOAL := help
.PHONY: help demo check test test-all rest tests flink full full-flink full-cluster durations laws experiments mutants coverage leak compat compat-flink lint image browser docs bench lock clean

VENV := .venv
BIN := $(VENV)/bin
# Three steps, so that a change costs no more than it must: packages (minutes), the project itself (seconds), and what is
# compiled of its sources (a second where nothing that is compiled has changed).
PACKAGES := $(VENV)/packages
INSTALLED := $(VENV)/installed
READY := $(VENV)/ready
SITE := $(VENV)/site
SOURCES := $(shell find anonymity operators state -name '*.py') evidence/attack/search.py

# uv takes seconds; pip takes a minute or two, and serves where uv finds no index, as pip has settings of its own.
install = $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1) || \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1)

# The first Python of a version that Crenel supports; override with `make PYTHON=/path/to/python ...`.
SUPPORTED := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))
PYTHON ?= $(shell for python in python3.11 python3.12 python3.10 python3; do \
	"$$python" -c '$(SUPPORTED)' 2>/dev/null && { echo "$$python"; break; }; done)

# Flink's scripts and the Java gateway read JAVA_HOME.
WITH_JAVA = JAVA_HOME="$$($(BIN)/python -m crenel.jobs.local.java)" && export JAVA_HOME &&

help:
	@echo 'make demo    run the job on a synthetic stream and show what comes out'
	@echo 'make test    lint, types, and the tests that tell within minutes whether Crenel works'
	@echo 'make check   the same without Flink'
	@echo 'make test-all  make test, and all other tests: whole jobs, Kafka, registry, lake, browser (25 minutes)'
	@echo 'make durations  where the time of all tests goes, into benchmarks/DURATIONS.md'
	@echo 'make experiments  tests of the experiments and of the benchmarks, for the night'
	@echo 'make laws    invariants, checked with 33 times as many examples, for the night'
	@echo 'make mutants a hundred small faults, each of which the tests should notice (up to an hour)'
	@echo 'make coverage  lines and branches of Python that the gate without Flink runs'
	@echo 'make leak    memory of a job at a fixed rate, after one minute and after five'
	@echo 'make compat  the library with the lowest and the highest versions of its packages'
	@echo 'make compat-flink  jobs with other versions of Flink and of Python'
	@echo 'make image   the image, built and run without Docker (needs root and debootstrap)'
	@echo 'make browser what tests in a browser need beside a Chromium'
	@echo 'make docs    the documentation as a site, in docs/_build/html'
	@echo 'make bench   speed, latency, memory and state, as tables'
	@echo 'make lock    pin all packages anew'
	@echo 'make clean   remove the environment and all caches'

demo: $(INSTALLED)
	@$(WITH_JAVA) $(BIN)/crenel demo

# Runs commands, and says how long they took.
timed = @begun=$$(date +%s); $(2) && echo "$(1): $$(($$(date +%s) - begun)) s"

lint: $(INSTALLED)
	$(call timed,lint,$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/codespell && $(BIN)/hadolint docker/Dockerfile && \
		$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker/compose.yaml && \
		$(BIN)/check-jsonschema --quiet --schemafile docker/kubernetes/flinkdeployment.schema.json docker/kubernetes/crenel.yaml)
	$(call timed,types,$(BIN)/mypy)

# Everything beside everything: lint, types, tests, and the one process of tests that share a Flink and mostly wait.
check: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 lint tests
test: $(READY)
	@$(MAKE) --no-print-directory --jobs=3 lint flink tests

# The gate and the rest: `.ci/run` makes one after the other.
test-all:
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory rest
rest: $(READY)
	@$(MAKE) --no-print-directory --jobs=3 full-cluster full-flink full

# The shell becomes pytest, so that a signal to make ends it.
PYTEST = $(BIN)/python -m pytest
XDIST = --numprocesses 2 --maxprocesses 2
# They start many Python processes, each of which would compile every module anew where an image has this set.
demo tests flink full full-flink full-cluster: export PYTHONDONTWRITEBYTECODE :=
tests: $(READY)
	@exec $(PYTEST) $(XDIST) -m 'not flink' tests
flink: $(READY)
	@$(WITH_JAVA) exec $(PYTEST) tests/flink
full: $(READY)
	@$(WITH_JAVA) $(PYTEST) $(XDIST) --hypothesis-profile full -m 'not flink' tests/full && \
		exec $(PYTEST) $(XDIST) --hypothesis-profile full -m 'laws and not flink' tests
full-flink: $(READY)
	@$(WITH_JAVA) exec $(PYTEST) -m 'flink and not cluster' tests/full
full-cluster: $(READY)
	@$(WITH_JAVA) exec $(PYTEST) -m cluster tests/full

# Both tiers, each into tables of its own.
durations: $(READY)
	@folder=$$(mktemp -d) && code=0; \
		CRENEL_DURATIONS=$$folder/gate $(MAKE) --no-print-directory --jobs=2 flink tests || code=$$?; \
		CRENEL_DURATIONS=$$folder/full $(MAKE) --no-print-directory rest || code=$$?; \
		$(BIN)/python -m tests.support.durations $$folder > benchmarks/DURATIONS.md; rm -rf $$folder; exit $$code

# For the night. A failure tells the seed of its records; hypothesis tries it first in the next run.
laws: $(READY)
	@exec $(PYTEST) -m 'laws and not flink' --hypothesis-profile nightly --hypothesis-show-statistics tests tests/full

# Tests of the experiments, of the benchmarks, of the mutants, and what takes too long for each day.
experiments: $(READY)
	@exec $(PYTEST) $(XDIST) --ignore tests/night/docker tests/night

# ARGUMENTS='--against FILE' compares with earlier results; --help names the others.
mutants: $(READY)
	@$(WITH_JAVA) exec $(BIN)/python -m tests.night.mutants $(ARGUMENTS)

# Of the gate without Flink; numba's functions are left out. The report stands also where a test fails.
coverage: $(READY)
	@$(BIN)/python -m coverage erase; code=0; \
		$(BIN)/python -m coverage run -m pytest $(XDIST) -m 'not flink' tests || code=$$?; \
		$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report --skip-covered --sort=cover; \
		exit $$code

# ARGUMENTS='--algorithm castle' takes another algorithm; --help names the others.
leak: $(READY)
	@$(WITH_JAVA) exec $(BIN)/python -m benchmarks.leak $(ARGUMENTS)

# Environments of their own, with a cache of their own; names other Pythons: PYTHONS='3.11'. WITH='numba==0.64.*' names a
# version between the lowest and the highest. Older ones of numpy and Arrow are for jobs on Flink 1.20 (compat-flink).
PYTHONS := 3.10 3.11 3.12 3.13
VERSIONS := lowest-direct highest
WITH :=
compat: $(PACKAGES)
	@set -e; folder=$$(mktemp -d); trap 'rm -rf '"$$folder" EXIT; export NUMBA_CACHE_DIR=$$folder/cache; \
	for python in $(PYTHONS); do for versions in $(VERSIONS); do \
		echo "Python $$python, $$versions"; \
		$(BIN)/uv venv --quiet --clear --python $$python $$folder/environment; \
		$(BIN)/uv pip install --quiet --python $$folder/environment --resolution $$versions --only-binary :all: \
			--requirements pyproject.toml 'numpy>=1.26' 'pyarrow>=16.1' $(WITH); \
		$(BIN)/uv pip install --quiet --python $$folder/environment hypothesis polars psutil pytest pytest-xdist; \
		$$folder/environment/bin/python -m pytest -q -p no:cacheprovider -m 'not flink' \
			tests/crenel tests/full/crenel tests/state/test_golden.py tests/anonymity/compiled \
			--ignore=tests/full/crenel/test_flink.py; \
	done; done

# In environments of their own: the versions of requirements.lock on other Pythons, also paths
# (FLINK_PYTHONS=/path/to/python3.12), and other versions of Flink, each with the packages that it asks for.
FLINK_PYTHONS := python3.10 python3.12
FLINKS := 1.20 2.0 2.1 2.2
RECOVERED := tests/full/jobs/test_recovery.py::test_killed_at_random_stopped_and_restored_at_another_parallelism_and_back
compat-flink: $(PACKAGES)
	@set -e; folder=$$(mktemp -d); trap 'rm -rf '"$$folder" EXIT; \
	for python in $(FLINK_PYTHONS); do \
		$(MAKE) --no-print-directory VENV=$$folder/environment PYTHON="$$python" flink; \
	done; \
	for flink in $(FLINKS); do \
		echo "Flink $$flink"; \
		$(BIN)/uv venv --quiet --clear --seed --python 3.11 $$folder/flink; \
		$(BIN)/uv pip install --quiet --python $$folder/flink --requirements pyproject.toml --extra flink --extra java \
			"apache-flink==$$flink.*" hypothesis polars pytest pytest-xdist; \
		JAVA_HOME="$$($$folder/flink/bin/python -m crenel.jobs.local.java)" $$folder/flink/bin/python -m pytest -q \
			-p no:cacheprovider -o filterwarnings=default tests/flink $(RECOVERED); \
	done

# Heavy, and not for every machine: tests/night/docker/image.py.
image: $(READY)
	@$(WITH_JAVA) exec $(BIN)/python -m pytest tests/night/docker/image.py --capture=no

# What the tests of the report and of the site in a browser need beside a Chromium.
browser: $(INSTALLED) $(SITE)
	$(call install,requirements-browser.lock)

# Warnings are errors. The site needs no server and no network: open docs/_build/html/index.html.
docs: $(SITE)
	@exec $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs docs/_build/html

$(SITE): $(INSTALLED) requirements-docs.lock
	$(call timed,packages of the site,{ $(call install,requirements-docs.lock); })
	@touch $@

bench: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks

$(READY): $(INSTALLED) $(SOURCES)
	@echo 'compiling what has changed of the core (all of it takes a little over a minute on two cores)'
	$(call timed,compile,$(BIN)/python -m crenel.jobs.precompile && \
		{ $(WITH_JAVA) $(BIN)/python -m crenel.jobs.local.classes || true; })
	@touch $@

$(INSTALLED): $(PACKAGES) pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(PACKAGES): requirements.lock requirements-java.lock
	@'$(PYTHON)' -c '$(SUPPORTED)' 2>/dev/null || { \
		echo "Crenel needs Python 3.10, 3.11 or 3.12; found: '$(PYTHON)'. Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@rm -rf $(VENV)
	'$(PYTHON)' -m venv $(VENV) || { echo "Python's venv module is missing (on Debian: apt install python3-venv)" >&2; exit 1; }
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock | \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r /dev/stdin
	$(call timed,packages,{ $(call install,requirements.lock); })
	@$(BIN)/python -m crenel.jobs.local.java >/dev/null 2>&1 || { set -x; $(call install,requirements-java.lock); }
	@touch $@

LOCK := $(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --quiet \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
EXTRA = sed -n 's/^$(1) = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '" ' | tr ',' '\n' | $(LOCK) -
lock: $(PACKAGES)
	{ sed -n 1p requirements.lock; $(LOCK) --extra dev pyproject.toml; } > requirements.lock.new
	{ sed -n 1p requirements-browser.lock; $(call EXTRA,browser); } > requirements-browser.lock.new
	{ sed -n 1p requirements-docs.lock; $(call EXTRA,docs) --constraint requirements.lock.new; } > requirements-docs.lock.new
	{ sed -n 1p requirements-java.lock; $(call EXTRA,java); } > requirements-java.lock.new
	{ sed -n 1p requirements-run.lock; $(LOCK) --constraint requirements.lock.new --extra contract --extra flink pyproject.toml; } > requirements-run.lock.new
	mv requirements.lock.new requirements.lock
	mv requirements-run.lock.new requirements-run.lock
	mv requirements-browser.lock.new requirements-browser.lock
	mv requirements-docs.lock.new requirements-docs.lock
	mv requirements-java.lock.new requirements-java.lock

clean:
	rm -rf $(VENV) build dist docs/_build .coverage* *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
