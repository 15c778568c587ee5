# make demo   install, run the demo on a bundled real log, say where the report is
# make test   install, run the test suite
# make quick   the laws in plain Python, without a compiler, within a minute
# make test-live   the live queue under faults: ten thousand random histories, a thousand kills, 20,000 jobs of a cluster
# make release   check, build, install in a new environment and run the demo there, tag; make upload sends it to PyPI
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export BACKFILL_CACHE_DIR ?= $(CURDIR)/.cache
unexport PYTHONDONTWRITEBYTECODE  # the tests start some 200 processes, each of which would compile all sources anew

.PHONY: demo test warm quick test-long test-live check lint types bench release upload clean

demo: $(VENV)/.user
	$(BIN)/backfill demo

test: warm  # many tests wait for processes, so there are more workers than processors
	$(BIN)/python -m pytest --dist worksteal -n $$($(BIN)/python -c "import os; print(3 * (os.cpu_count() or 1) + 1)")

warm: $(VENV)/.dev
	$(BIN)/python -m tests.warm

quick: $(VENV)/.dev  # without a compiler; the laws that are left out run hundreds of jobs or dozens of cases each
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=few $(BIN)/python -m pytest -n auto tests/laws \
	  -k "not deep_queue and not no_work_is_lost and not limits_hold"

test-long: $(VENV)/.dev
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -n auto -m "long or not long"

test-live: $(VENV)/.dev
	BACKFILL_FAULT_RUNS=10000 BACKFILL_KILLS=1000 BACKFILL_CLUSTER_JOBS=20000 $(BIN)/python -m pytest tests/queue tests/pools -n auto -p no:rerunfailures

check: lint types test

lint: $(VENV)/.dev
	$(BIN)/ruff format --check src tests benchmarks tools
	$(BIN)/ruff check src tests benchmarks tools

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

release: $(VENV)/.release
	$(BIN)/python tools/release.py

upload: $(VENV)/.release
	$(BIN)/python -m twine upload dist/*

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Without --no-compile pip compiles every module of every package, which takes as long as all else that it does.
$(VENV)/.user: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e .
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	touch $@

$(VENV)/.release: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[release]'
	touch $@

clean:
	rm -rf $(VENV) .cache .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist benchmarks/.build
