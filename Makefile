# Needs python3 (3.11 or newer) and make; everything else is installed into $(VENV).
#   make run          install, then the demo: build, play, score, sweep, report
#   make test         the default tests (no torch, no network but the install, minutes)
#   make check        lint, types, import rules
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
VENV ?= .venv
PARITY_VENV ?= .venv-parity
S2S_VENV ?= .venv-s2s
PIPECAT_VENV ?= .venv-pipecat
PYTEST_ARGS ?=

# Packages come in the tested versions; what pip is told beyond that is the machine's own business.
PIP_INSTALL = -m pip install --quiet -c constraints.txt

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
PARITY_BIN := $(PARITY_VENV)/Scripts
S2S_BIN := $(S2S_VENV)/Scripts
PIPECAT_BIN := $(PIPECAT_VENV)/Scripts
else
BIN := $(VENV)/bin
PARITY_BIN := $(PARITY_VENV)/bin
S2S_BIN := $(S2S_VENV)/bin
PIPECAT_BIN := $(PIPECAT_VENV)/bin
endif

INPUTS := pyproject.toml constraints.txt
MADE := $(VENV)/.made
BASE := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
PARITY := $(PARITY_VENV)/.installed
S2S := $(S2S_VENV)/.installed
S2S_REQUIREMENTS := tests/tools/s2s_requirements.txt
PIPECAT := $(PIPECAT_VENV)/.installed
PIPECAT_REQUIREMENTS := tests/tools/pipecat_requirements.txt
AIMOCK_DIR ?= .aimock
AIMOCK := $(AIMOCK_DIR)/node_modules/@copilotkit/aimock/dist/cli.js

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install install-dev install-parity run test test-slow test-all test-parity test-peers \
	check faults bench docs clean

help:
	@echo "make run          install, then play the demo and write its report"
	@echo "make test         default tests"
	@echo "make test-slow    the slow tests alone"
	@echo "make test-all     default and slow tests"
	@echo "make test-parity  tests against torch and the official VAD package, in $(PARITY_VENV)"
	@echo "make test-peers   tests against clients and servers of others, in $(PARITY_VENV), $(S2S_VENV), $(PIPECAT_VENV)"
	@echo "make check        ruff, mypy --strict, import rules"
	@echo "make faults       every fault of every adapter: prints the table, writes docs/faults.md"
	@echo "make bench        benchmarks, one table"
	@echo "make docs         run the commands that the documents show"
	@echo "make clean        remove the environments, caches and build output"

$(MADE):
	@$(PYTHON) -c "import sys; v = sys.version_info[:2]; sys.exit(v < (3, 11) and \
	'PYTHON=$(PYTHON): expected Python 3.11 or newer, got %d.%d' % v)"
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(BASE): $(INPUTS) | $(MADE)
	$(BIN)/python $(PIP_INSTALL) -e .
	@touch $@

$(DEV): $(INPUTS) $(BASE)
	$(BIN)/python $(PIP_INSTALL) -e ".[dev]"
	@touch $@

# An environment of its own for what the product must be tested without: torch, the official VAD package,
# vendors' clients, aiortc. A torch that is already there (a build of your choice) is kept when its version fits
# constraints.txt.
$(PARITY): $(INPUTS)
	@test -x $(PARITY_BIN)/python || $(PYTHON) -m venv $(PARITY_VENV)
	$(PARITY_BIN)/python $(PIP_INSTALL) torch
	$(PARITY_BIN)/python $(PIP_INSTALL) -e ".[dev,parity,peers,webrtc]"
	@touch $@

# A voice agent that others wrote, as a peer of our client.
$(S2S): $(S2S_REQUIREMENTS)
	@test -x $(S2S_BIN)/python || $(PYTHON) -m venv $(S2S_VENV)
	$(S2S_BIN)/python -m pip install --quiet --no-deps speech-to-speech==1.1.0
	$(S2S_BIN)/python -m pip install --quiet -r $(S2S_REQUIREMENTS)
	@touch $@

# The framework whose transports our clients speak to.
$(PIPECAT): $(PIPECAT_REQUIREMENTS)
	@test -x $(PIPECAT_BIN)/python || $(PYTHON) -m venv $(PIPECAT_VENV)
	$(PIPECAT_BIN)/python -m pip install --quiet -r $(PIPECAT_REQUIREMENTS)
	@touch $@

# A server that others wrote, for node. Without npm its tests are skipped, and say so.
$(AIMOCK):
	@if command -v npm >/dev/null; then npm install --silent --no-package-lock --no-audit --no-fund \
	--ignore-scripts --prefix $(AIMOCK_DIR) @copilotkit/aimock@1.43.0; else echo "no npm: without aimock"; fi

install: $(BASE)
install-dev: $(DEV)
install-parity: $(PARITY)

run: $(BASE)
	$(BIN)/rig demo

test: $(DEV)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-slow: $(DEV)
	$(BIN)/python -m pytest -m "slow and not parity and not peer" $(PYTEST_ARGS)

test-all: $(DEV)
	$(BIN)/python -m pytest -m "not parity and not peer" $(PYTEST_ARGS)

test-parity: $(PARITY)
	$(PARITY_BIN)/python -m pytest -m parity $(PYTEST_ARGS)

test-peers: $(PARITY) $(S2S) $(PIPECAT) $(AIMOCK)
	DUPLEXRIG_AIMOCK="$$(ls $(AIMOCK) 2>/dev/null)" \
	DUPLEXRIG_S2S_PYTHON=$(S2S_BIN)/python DUPLEXRIG_PIPECAT_PYTHON=$(PIPECAT_BIN)/python \
	$(PARITY_BIN)/python -m pytest -m peer $(PYTEST_ARGS)

check: $(DEV)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

# Real sessions in real time, half a minute an adapter; numbers are of this machine.
faults: $(DEV)
	$(BIN)/python tests/conformance/fault_table.py

# bench_vad needs torch as well: $(PARITY_BIN)/python bench/run.py --only vad, after install-parity.
bench: $(DEV)
	$(BIN)/python bench/run.py

docs: $(DEV)
	$(BIN)/python docs/check_commands.py

clean:
	rm -rf $(VENV) $(PARITY_VENV) $(S2S_VENV) $(PIPECAT_VENV) $(AIMOCK_DIR) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache \
	.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
