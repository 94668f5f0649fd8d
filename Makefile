# Every verb sets up what it needs: `make demo` works in a fresh clone with only Python >= 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
MINUTES ?= 30
SEED ?=
# Bytecode is kept, whatever the shell says: tests start hundreds of processes, which would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick lint types docs wheel bench chaos format clean

help:  ## Explain each verb.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "abreast needs Python 3.11 or newer, and $(PYTHON) is older: try  make PYTHON=python3.11 ..."; exit 2; }
	@echo "Setting up .venv (once; a few minutes on a slow line) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

setup: .venv/.ready  ## Build .venv (once; quick when nothing changed).

demo: setup  ## Train 5 agents in treasure hunt for a couple of minutes, with a live display.
	@$(BIN)/abreast train treasurehunt --agents 5 --parallel

test: setup lint types  ## Lint, types and all tests: what CI runs.
	@$(BIN)/python -m pytest

lint: setup  ## Check style with ruff.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup  ## Check types with mypy (strict for src).
	@$(BIN)/mypy

docs: setup  ## Build the documentation into site/ (a broken link ends that), then run every code block of it.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "The site: open site/index.html"
	@$(BIN)/python -m pytest tests/test_docs.py

wheel: setup  ## Build the wheel into dist/.
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps -c constraints.txt -w dist .
	@ls dist

bench: setup  ## Run every benchmark (minutes); `abreast bench` is the small one; figures: benchmarks/README.md.
	@$(BIN)/abreast bench --full
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python benchmarks/parts.py
	@$(BIN)/python benchmarks/timeline.py
	@$(BIN)/python benchmarks/rollouts.py
	@$(BIN)/python benchmarks/start.py
	@$(BIN)/python benchmarks/planner.py
	@$(BIN)/python benchmarks/cluster.py
	@$(BIN)/python benchmarks/cluster.py --measure
	@$(BIN)/python benchmarks/sokoban_rooms.py
	@$(BIN)/python benchmarks/treasurehunt.py
	@$(BIN)/python benchmarks/adapters.py
	@$(BIN)/python benchmarks/environments.py
	@$(BIN)/python benchmarks/external_environments.py
	@$(BIN)/python benchmarks/report.py

chaos: setup  ## All promises in full, and stress; then kill, stop, starve, corrupt runs at random: MINUTES=30 SEED=1.
	@ABREAST_CHAOS=1 $(BIN)/python -m pytest
	@for i in 1 2 3 4 5; do $(BIN)/python -m pytest tests/promises tests/training -k "killed or frozen" || exit 1; done
	@PYTHONPATH=tests $(BIN)/python tests/chaos/driver.py --stress --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

quick: setup lint  ## A minute of tests while you work: all but runs in workers and the text environments.
	@$(BIN)/python -m pytest tests/test_layers.py tests/test_walks.py tests/test_state.py tests/test_files.py tests/processes \
		tests/replay tests/worlds tests/agents tests/models tests/training/test_loop.py tests/training/test_lanes.py

format: setup  ## Rewrite the code in the house style.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:  ## Remove what the verbs made, run folders aside.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build dist site
