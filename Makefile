PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
DOCS := $(VENV)/docs

.PHONY: demo test test-cluster test-deep fuzz check bench docs lock clean test-hostile

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

test-hostile: $(DEV)  ## one daemon against callers that mean harm; takes about five minutes
	$(BIN)/pytest -p no:cacheprovider -s tests/hostile $(ARGS)

check: $(DEV)  ## lint, types, layers, locks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	scripts/lock --check

bench: $(DEV)  ## measures the promises and writes docs/benchmarks.md
	$(BIN)/python -m tests.bench $(ARGS)

docs: $(RUN) $(DOCS)/.ready  ## builds the documentation into site/; a broken link or anchor fails
	$(BIN)/python scripts/reference_pages.py
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict $(ARGS)
	@echo "site/index.html"

lock: $(DEV)  ## renews the hashed requirement files
	scripts/lock

clean:
	rm -rf $(VENV)

$(DOCS)/.ready: requirements/docs.txt
	@echo "installing the tools of the documentation, once"
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	touch $@

$(RUN): requirements/build.txt requirements/run.txt pyproject.toml
	@echo "installing $$(grep -c '^[a-z].*==' requirements/run.txt) packages into $(VENV), once; this takes about a minute"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@echo "installed"
	touch $@

$(DEV): $(RUN) requirements/dev.txt requirements/helm.txt scripts/helm
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	scripts/helm >/dev/null
	touch $@
