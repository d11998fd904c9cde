.DEFAULT_GOAL := help
.PHONY: help demo test bench lock clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

# The first Python of a version that Crenel supports; override with `make PYTHON=/path/to/python ...`.
SUPPORTED := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))
PYTHON ?= $(shell for python in python3.11 python3.12 python3.10 python3; do \
	"$$python" -c '$(SUPPORTED)' 2>/dev/null && { echo "$$python"; break; }; done)

# Flink's scripts and the Java gateway read JAVA_HOME.
WITH_JAVA = JAVA_HOME="$$($(BIN)/python -m jobs.local.java)" && export JAVA_HOME &&

help:
	@echo 'make demo    run the job on a synthetic stream and show what comes out'
	@echo 'make test    lint, types and tests'
	@echo 'make bench   the figures, as tables'
	@echo 'make lock    pin all packages anew (needs uv)'
	@echo 'make clean   remove the environment and all caches'

demo: $(READY)
	@$(WITH_JAVA) $(BIN)/crenel demo

test: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@$(WITH_JAVA) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

bench: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks

$(READY): pyproject.toml requirements.lock requirements-java.lock
	@'$(PYTHON)' -c '$(SUPPORTED)' 2>/dev/null || { \
		echo "Crenel needs Python 3.10, 3.11 or 3.12; found: '$(PYTHON)'. Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@rm -rf $(VENV)
	'$(PYTHON)' -m venv $(VENV) || { echo "Python's venv module is missing (on Debian: apt install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(BIN)/python -m jobs.local.java >/dev/null 2>&1 || \
		{ set -x; $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-java.lock; }
	@echo 'compiling the core (two or three minutes, once)'
	@$(BIN)/python -m anonymity.compiled.warm
	@echo "archiving Flink's classes, for a quicker start (half a minute, once)"
	@$(WITH_JAVA) $(BIN)/python -m jobs.local.classes || true
	@touch $@

LOCK := uv pip compile --universal --python-version 3.10 --generate-hashes --quiet \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
lock:
	{ sed -n 1p requirements.lock; $(LOCK) --extra dev pyproject.toml; } > requirements.lock.new
	{ sed -n 1p requirements-java.lock; sed -n 's/^java = \["\(.*\)"\]/\1/p' pyproject.toml | $(LOCK) -; } > requirements-java.lock.new
	mv requirements.lock.new requirements.lock
	mv requirements-java.lock.new requirements-java.lock

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
