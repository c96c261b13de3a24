PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
DOCS := $(VENV)/docs
# Tests start Python hundreds of times: without compiled files each start compiles the project and every test again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo dist rehearse test test-slow coverage test-cluster test-deep test-hostile test-faults fuzz soak verify check bench results docs lock clean image chart sbom advisories

demo: $(RUN)  ## an embedded cluster and the daemon watching it; leaves a recording
	$(BIN)/ballast demo --record build/recording $(ARGS)

rehearse: $(RUN)  ## what Ballast would have done over the recorded day of the demo; opens the report
	$(BIN)/ballast rehearse --recording build/recording --out build/rehearsal $(ARGS)
	$(BIN)/python -m webbrowser build/rehearsal/report.html

test: $(DEV)  ## the core, and the shell with fakes: two minutes
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest -n 3 --dist worksteal -m "not slow" tests/unit $(ARGS)

test-slow: $(DEV)  ## the rest of what needs Python, a browser or helm, and properties at length
	$(BIN)/pytest -n 3 --dist worksteal -m "slow or hypothesis" $(ARGS)

coverage: $(DEV)  ## test-slow in twice the time, and how much of the code it runs
	$(MAKE) test-slow ARGS="--cov --cov-report= $(ARGS)"
	$(BIN)/coverage report

test-cluster: $(DEV)  ## against the real control plane, Prometheus and node_exporter
	tests/cluster/run $(ARGS)

test-deep: $(DEV)  ## the properties of power, and what a few nodes may change, ten times as many examples
	HYPOTHESIS_PROFILE=deep $(BIN)/pytest -n 2 --dist worksteal -m hypothesis tests/unit/power tests/unit/daemon/test_power_budget.py tests/unit/daemon/test_blast_radius.py $(ARGS)

fuzz: $(DEV)  ## mutated input for every decoder and parser, 100,000 cases in a minute
	$(BIN)/python -m ballast_lab.fuzz $(ARGS)

verify:  ## every suite on a clean clone of this commit; when all are green, .ci/verified names it
	scripts/verify

test-hostile: $(DEV)  ## one daemon against callers that mean harm; takes about six minutes
	$(BIN)/pytest -p no:cacheprovider -s lab/ballast_lab/hostile $(ARGS)

soak: $(DEV)  ## a simulated day of the daemon alone; takes about a quarter of an hour
	$(BIN)/python -m ballast_lab.bench --only soak $(ARGS)

test-faults: ARGS ?= --sample 24 --minutes 2
test-faults: $(DEV)  ## daemons hurt at their writes on a real control plane; ARGS= runs every cell
	tests/cluster/tools/build >/dev/null
	PYTHONPATH=daemon $(BIN)/python -m ballast_lab.faults $(ARGS)

check: $(DEV)  ## lint, types, layers, locks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	scripts/lock --check

bench: $(DEV)  ## measures the promises and writes measurements/benchmarks.md
	$(BIN)/python -m ballast_lab.bench $(ARGS)

results: $(DEV)  ## raw numbers of experiments and benchmarks into dist/results; DATA= is a folder of public traces
	scripts/results dist/results $(DATA)

docs: $(RUN) $(DOCS)/.ready  ## builds the documentation into site/; a broken link or anchor fails
	$(BIN)/python scripts/reference_pages.py
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict $(ARGS)
	@echo "site/index.html"

lock: $(DEV)  ## renews the hashed requirement files
	scripts/lock

IMAGE ?= ballast:0.3.0-dev
BUILDER ?= $(firstword $(foreach tool,docker podman buildah,$(if $(shell command -v $(tool)),$(tool))))

image:  ## builds the image; with PUSH=1 it is pushed too
	test -n "$(BUILDER)" || { echo "make image needs docker, podman or buildah on the PATH" >&2; exit 1; }
	$(BUILDER) build --tag $(IMAGE) --build-arg REVISION=$$(git rev-parse HEAD) .
	test -z "$(PUSH)" || $(BUILDER) push $(IMAGE)

chart: $(DEV)  ## packs the chart into dist/, for the image IMAGE (and DIGEST)
	scripts/pack_chart dist "$(IMAGE)" "$(DIGEST)"

dist: $(RUN)  ## sdist and wheel in dist/python, with a README whose links work anywhere
	$(BIN)/python scripts/dist dist/python

SBOM ?= dist/sbom.cdx.json
sbom: $(RUN)  ## what is in the image, as CycloneDX, and the licences
	mkdir -p $(dir $(SBOM))
	$(BIN)/python scripts/sbom.py $(SBOM)
	$(BIN)/python scripts/sbom.py --notices $(dir $(SBOM))THIRD-PARTY.md

advisories: $(DEV)  ## known vulnerabilities of what is locked; asks PyPI's advisory database
	$(BIN)/uv tool run pip-audit --disable-pip --require-hashes --requirement requirements/run.txt

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
