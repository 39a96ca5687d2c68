# Each target sets up what it needs in .venv, once, and again when a pin changes: the demo what users install, the others
# what developers do.

PYTHON ?= python3
BIN := .venv/bin
# Pinned by its version alone, for it has a build for each accelerator: a GPU machine sets another requirement, options of
# pip install included, or nothing to keep the torch that it brings.  The images' ARG TORCH is this one.
TORCH ?= torch==2.13.0

.PHONY: audit images-test sbom help demo test test-fast test-slow e2e lint lock format ui up down chaos bench clean

help:  ## say what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(if $(wildcard .venv/.installed),.venv/.installed,.venv/.demo)  ## train a retriever on real text and show the result
	$(BIN)/noisyir run demo

# Tests run on a process for each core, with a thread each.  Each begins with a part of the tests in their order, so that what a
# folder's tests share is made once, and who has finished takes from the end of another's part.
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=logical --maxprocesses=8 --dist=worksteal

test: .venv/.installed  ## run every test that needs neither minutes nor a GPU
	$(TESTS)

test-fast: .venv/.installed  ## run the equations, the properties, the layers and the quick units
	$(TESTS) tests/architecture tests/golden tests/properties $(addprefix tests/unit/,data eval mining detection)

test-slow: .venv/.installed  ## run the tests that take minutes, and the properties on examples drawn afresh
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest --hypothesis-profile=fresh tests/properties

e2e: .venv/.installed  ## run what needs servers: pools, schedules, kill -9 of everything
	$(BIN)/python -m pytest -m e2e tests/e2e

lint: .venv/.installed  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lock:  ## write pylock.toml from pyproject.toml; UPGRADE=1 takes the newest versions
	$(PYTHON) -m infra.lock --torch '$(TORCH)' $(if $(UPGRADE),--upgrade)

format: .venv/.installed  ## put the code into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: .venv/.installed  ## open MLflow and Prefect on this machine's loopback
	$(BIN)/python -m infra.ui

up: .venv/.installed  ## start Postgres, Prefect, MLflow and workers; AUTH=1 with passwords
	$(BIN)/python -m infra.up up $(if $(filter 1 yes true,$(AUTH)),--auth)

down: .venv/.installed  ## stop what make up started
	$(BIN)/python -m infra.up down

chaos: .venv/.installed  ## damage, kill and starve runs, and see whether they heal; FAMILIES="kills gc" chooses
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos $(FAMILIES)

audit: .venv/audit/.installed  ## ask for known vulnerabilities of every locked version; needs the network
	.venv/audit/bin/pip-audit --locked . --strict

sbom: .venv/.demo .venv/audit/.installed  ## write dist/noisyir.cdx.json: the packages of .venv, as a CycloneDX bill
	@mkdir -p dist
	.venv/audit/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file dist/noisyir.cdx.json $(BIN)/python

# Apart, for what these two need is nothing that noisyir runs with.
.venv/audit/.installed: Makefile .venv/.installed
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/pip install --quiet pip-audit==2.10.1 cyclonedx-bom==7.5.0
	@touch $@

images-test:  ## build the CPU image without Docker and run a flow in it (root; buildah and debootstrap)
	sh docker/test_images.sh

bench: .venv/.bench  ## time noisyir beside its peers; ROWS=mining,npc_epoch chooses
	$(BIN)/python -m bench.speed $(if $(ROWS),--rows $(ROWS))

clean:  ## remove the environment and the caches, but no artifacts
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/.installed: EXTRA := dev
.venv/.demo: EXTRA := all
.venv/.bench: EXTRA := bench
.venv/.installed .venv/.demo .venv/.bench: pyproject.toml pylock.toml infra/install.py
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("noisyir needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) infra/install.py $(EXTRA) --torch '$(TORCH)'
	@touch $@
