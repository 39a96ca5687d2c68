# Each target sets up what it needs: a virtual environment in .venv, once, and again when a pin changes.

PYTHON ?= python3
BIN := .venv/bin
# Package versions are pinned together; GPU machines set CONSTRAINTS= to bring their own torch.
CONSTRAINTS ?= --constraint constraints.txt

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-slow e2e lint format ui up down bench clean

help:  ## say what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: .venv/.installed  ## train a retriever on real text and show the result
	$(BIN)/noisyir run demo

test: .venv/.installed  ## run every test that needs neither minutes nor a GPU
	$(BIN)/python -m pytest

test-slow: .venv/.installed  ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow

e2e: .venv/.installed  ## run what needs servers: pools, schedules, kill -9 of everything
	$(BIN)/python -m pytest -m e2e tests/e2e

lint: .venv/.installed  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.installed  ## put the code into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: .venv/.installed  ## open MLflow and Prefect on this machine's loopback
	$(BIN)/python -m infra.ui

up: .venv/.installed  ## start Postgres, Prefect, MLflow and workers; AUTH=1 with passwords
	$(BIN)/python -m infra.up up $(if $(filter 1 yes true,$(AUTH)),--auth)

down: .venv/.installed  ## stop what make up started
	$(BIN)/python -m infra.up down

bench: .venv/.installed  ## run the speed benchmarks
	$(BIN)/python bench/static_training.py
	$(BIN)/python bench/npc_epoch.py
	$(BIN)/python bench/bm25_vs_pyserini.py

clean:  ## remove the environment and the caches, but no artifacts
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("noisyir needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet $(CONSTRAINTS) --editable '.[dev]'
	@touch $@
