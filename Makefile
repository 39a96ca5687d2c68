# Each target sets up what it needs in .venv, once, and again when a pin changes: the demo what users install, the others
# what developers do.

PYTHON ?= python3
BIN := .venv/bin
# Pinned by its version alone, for it has a build for each accelerator: a GPU machine sets another requirement, options of
# pip install included, or nothing to keep the torch that it brings.  The images' ARG TORCH is this one.
TORCH ?= torch==2.13.0
UV := $(BIN)/uv
# A shell in which uv knows pip's settings, and the newest version that any index has counts, as with pip.
AS_PIP := export UV_INDEX_STRATEGY=$${UV_INDEX_STRATEGY-unsafe-best-match}; eval "$$($(BIN)/python -m pip config list | sed -nE -f infra/pip_settings.sed)"

# Python keeps what it compiled, also where a container's image says otherwise: without that each process that a test begins
# compiles torch from its source, which takes longer than all else that it does.
export PYTHONDONTWRITEBYTECODE =

.PHONY: audit images-test sbom help demo test test-fast test-slow e2e lint lock format site wheel pictures ui up down backup restore upgrade chaos bench clean

help:  ## say what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(if $(wildcard .venv/.installed),.venv/.installed,.venv/.demo)  ## train a retriever on real text and show the result
	$(BIN)/noisyir run demo

# Tests run on a process for each core and one more, for some of them wait; with a thread each.  Each begins with a part of the
# tests in their order, so that what a folder's tests share is made once, and who has finished takes from another's part.
TESTS = OMP_NUM_THREADS=1 $(BIN)/python -m pytest --dist=worksteal \
	--numprocesses=$(shell $(BIN)/python -c 'import os; print(min(8, os.cpu_count() + 1))')

test: .venv/.installed  ## run every test that neither takes long nor needs a GPU
	$(TESTS)

test-fast: .venv/.installed  ## run the equations, the properties, the layers and the quick units
	$(TESTS) tests/architecture tests/golden tests/properties $(addprefix tests/unit/,data evaluation mining detection)

test-slow: .venv/.installed  ## run the tests that take long, and the properties on examples drawn afresh
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest --hypothesis-profile=fresh tests/properties

e2e: .venv/.installed  ## run what needs servers: pools, schedules, kill -9 of everything
	$(BIN)/python -m pytest -m e2e tests/e2e

lint: .venv/.installed  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# From the index alone: folders and further indexes of this machine would put their addresses into the lock.
lock: | $(UV)  ## write uv.lock from pyproject.toml; UPGRADE=1 takes the newest versions
	@$(AS_PIP); env -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS $(UV) lock --config-file infra/lock.toml $(if $(UPGRADE),--upgrade)

format: .venv/.installed  ## put the code into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

site: .venv/.installed  ## build the documentation into site/, offline; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

wheel: .venv/.installed  ## build dist/noisyir-VERSION-py3-none-any.whl
	$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist
	@ls dist/*.whl

pictures: .venv/.installed  ## draw README's pictures: an audit of an example, in a browser and on a terminal
	$(BIN)/python -m bench.pictures

ui: .venv/.installed  ## open MLflow and Prefect on this machine's loopback
	$(BIN)/python -m infra.up ui

up: .venv/.installed  ## start Postgres, Prefect, MLflow and workers; AUTH=1 with passwords
	$(BIN)/python -m infra.up up $(if $(filter 1 yes true,$(AUTH)),--auth)

down: .venv/.installed  ## stop what make up started
	$(BIN)/python -m infra.up down

backup: .venv/.installed  ## dump the servers' databases, while they are up or not
	$(BIN)/python -m infra.up backup

restore: .venv/.installed  ## stop the servers, put the databases of FROM=FOLDER back, and start
	$(BIN)/python -m infra.up restore $(FROM)

upgrade: .venv/.installed  ## stop the servers, dump the databases, upgrade MLflow's, and start
	$(BIN)/python -m infra.up upgrade

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
# What uv.lock pins by hash and this checkout, editable; then torch, without what pyproject.toml and lock.toml tell uv of it.
.venv/.installed .venv/.demo .venv/.bench: pyproject.toml uv.lock | $(UV)
	@$(AS_PIP); set -ex; \
	$(UV) sync --quiet --frozen --inexact --python $(BIN)/python --extra $(EXTRA) --no-install-package torch; \
	$(if $(strip $(TORCH)),$(UV) pip install --quiet --no-config --python $(BIN)/python $(TORCH))
	@touch $@

$(UV):
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("noisyir needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
