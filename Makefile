# make demo   install, run the demo on a bundled real log, say where the report is
# make test   install, run the test suite
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export BACKFILL_CACHE_DIR ?= $(CURDIR)/.cache

.PHONY: demo test test-long check lint types bench clean

demo: $(VENV)/.user
	$(BIN)/backfill demo

test: $(VENV)/.dev
	$(BIN)/python -m tests.warm
	$(BIN)/python -m pytest -n auto

test-long: $(VENV)/.dev
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -n auto -m "long or not long"

check: lint types test

lint: $(VENV)/.dev
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.user: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .cache .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist benchmarks/.build
