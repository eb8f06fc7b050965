# Needs make and Python 3.11 or newer; everything else goes into .venv.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet -c constraints.txt

PEERS := .venv-peers
PEERS_PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(PEERS)/bin/python -m pip install --quiet -c benchmarks/peers/constraints.txt
PEER_PACKAGES := lightgbm ngboost interpret-core torch laplace-torch lassonet pymc-bart

.PHONY: help demo test check format docs bench-sweep bench-accuracy bench-mixtures bench-starts bench-structures bench-noise bench-cases bench-table1 bench-peers bench-docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo            fit two small data sets, show what was found, write demo/report.html"
	@echo "make test            run the tests; ARGS='-m \"not slow\"' passes options on to pytest"
	@echo "make check           formatting, lint and types"
	@echo "make format          rewrite the code in the house format"
	@echo "make docs            build the documentation into site/"
	@echo "make bench-sweep     time one EP sweep"
	@echo "make bench-accuracy  held-out accuracy of the defaults, hours; ARGS=--quick minutes, ARGS=--help more"
	@echo "make bench-mixtures  squared errors of unlike methods and of their best mixture, a quarter of an hour; ARGS=--quick a minute"
	@echo "make bench-starts    single choices of the defaults on folds of training rows, a quarter of an hour; ARGS=--quick a minute"
	@echo "make bench-noise     noise that depends on the inputs, half an hour; ARGS=--quick a minute"
	@echo "make bench-structures  classes, many inputs, outliers beside peers, an hour; ARGS=--quick minutes"
	@echo "make bench-cases     the paper's three cases, its claims as numbers over 10 seeds; ARGS=--quick a minute"
	@echo "make bench-table1    the paper's Table 1, its numbers beside ours, hours; ARGS=--quick minutes"
	@echo "make bench-peers     cavity beside peers in an environment of their own, .venv-peers, hours; ARGS=--quick minutes"
	@echo "make bench-docs      write docs/benchmarks.md and the table of the README from benchmarks/results"
	@echo "make clean           remove .venv and everything that was built"

# Installed once; again when the dependencies or the pinned versions change.
$(VENV)/.installed: pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || \
	  { echo "No interpreter called '$(PYTHON)'. Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "cavity needs Python 3.11 or newer; '$(PYTHON)' is older. Name another: make PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV) (once; it downloads the dependencies) ..."
	@"$(PYTHON)" -m venv "$(VENV)" || \
	  { echo "Could not create $(VENV). Some systems ship venv apart: install python3-venv and run make again."; exit 1; }
	@$(PIP) -e ".[dev]"
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	@echo "Adding the documentation tools to $(VENV) ..."
	@$(PIP) -e ".[dev,docs]"
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/cavity demo --out demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest -q $(ARGS)

check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

bench-sweep: $(VENV)/.installed
	$(BIN)/python benchmarks/speed/sweep.py

bench-accuracy: $(VENV)/.installed
	$(BIN)/python -m benchmarks.accuracy $(ARGS)

bench-mixtures: $(VENV)/.installed
	$(BIN)/python -m benchmarks.mixtures $(ARGS)

bench-starts: $(VENV)/.installed
	$(BIN)/python -m benchmarks.starts $(ARGS)

bench-structures: $(VENV)/.installed
	$(BIN)/python -m benchmarks.structures $(ARGS)

bench-noise: $(VENV)/.installed
	$(BIN)/python -m benchmarks.noise $(ARGS)

bench-cases: $(VENV)/.installed
	$(BIN)/python -m benchmarks.cases $(ARGS)

# Needs the sampler of benchmarks/constraints.txt, in an environment of its own.
$(BENCH)/.installed: pyproject.toml constraints.txt benchmarks/constraints.txt
	@echo "Setting up $(BENCH) (once; it downloads the dependencies) ..."
	@"$(PYTHON)" -m venv "$(BENCH)"
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BENCH)/bin/python -m pip install --quiet -c constraints.txt \
	  -c benchmarks/constraints.txt -e . numpyro
	@touch $@

bench-table1: $(BENCH)/.installed
	$(BENCH)/bin/python -m benchmarks.table1 $(ARGS)

# The peers never touch .venv. One that cannot be installed leaves the others; its rows then say so.
$(PEERS)/.installed: pyproject.toml benchmarks/peers/constraints.txt
	@echo "Setting up $(PEERS) (once; on Linux torch downloads some gigabytes) ..."
	@"$(PYTHON)" -m venv "$(PEERS)"
	@$(PEERS_PIP) -e .
	@for peer in $(PEER_PACKAGES); do $(PEERS_PIP) $$peer || echo "$$peer could not be installed"; done
	@touch $@

bench-peers: $(PEERS)/.installed
	$(PEERS)/bin/python -m benchmarks.peers $(ARGS)

bench-docs: $(VENV)/.installed
	$(BIN)/python -m benchmarks.publish

clean:
	rm -rf $(VENV) $(BENCH) $(PEERS) demo site build dist .pytest_cache .mypy_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
