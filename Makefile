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
MOSHI_VENV ?= .venv-moshi
PYTEST_ARGS ?=

# Packages come in the tested versions; what pip is told beyond that is the machine's own business.
PIP_INSTALL = -m pip install --quiet -c constraints.txt

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
PARITY_BIN := $(PARITY_VENV)/Scripts
S2S_BIN := $(S2S_VENV)/Scripts
PIPECAT_BIN := $(PIPECAT_VENV)/Scripts
MOSHI_BIN := $(MOSHI_VENV)/Scripts
else
BIN := $(VENV)/bin
PARITY_BIN := $(PARITY_VENV)/bin
S2S_BIN := $(S2S_VENV)/bin
PIPECAT_BIN := $(PIPECAT_VENV)/bin
MOSHI_BIN := $(MOSHI_VENV)/bin
endif

INPUTS := pyproject.toml constraints.txt
MADE := $(VENV)/.made
BASE := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
BROWSER := $(VENV)/.installed-browser
PARITY := $(PARITY_VENV)/.installed
S2S := $(S2S_VENV)/.installed
S2S_REQUIREMENTS := tests/tools/s2s_requirements.txt
PIPECAT := $(PIPECAT_VENV)/.installed
PIPECAT_REQUIREMENTS := tests/tools/pipecat_requirements.txt
MOSHI := $(MOSHI_VENV)/.installed
MOSHI_REQUIREMENTS := tests/tools/moshi_requirements.txt
AIMOCK_DIR ?= .aimock
AIMOCK := $(AIMOCK_DIR)/node_modules/@copilotkit/aimock/dist/cli.js

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install install-dev install-parity install-peers run test test-slow test-all test-browser test-parity test-extras test-peers \
	check faults floors bench screenshots docs clean

help:
	@echo "make run          install, then play the demo and write its report"
	@echo "make test         default tests"
	@echo "make test-slow    the slow tests alone"
	@echo "make test-all     default and slow tests"
	@echo "make test-browser the report's pages in the system's Chromium"
	@echo "make test-parity  tests against torch and the official VAD package, in $(PARITY_VENV)"
	@echo "make test-extras  tests of the extras m4a and prosody, in $(PARITY_VENV)"
	@echo "make test-peers   tests against clients and servers of others, in environments of their own"
	@echo "make check        ruff, mypy --strict, import rules"
	@echo "make faults       every fault of every adapter: prints the table, writes docs/faults.md"
	@echo "make floors       agents of known behaviour over the whole suite: the verdicts that ship, docs/floors.md"
	@echo "make bench        benchmarks, one table"
	@echo "make screenshots  the pictures in docs/images, from a browser"
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

# Drives the system's Chromium (Debian: apt-get install chromium); nothing is downloaded by it.
$(BROWSER): $(INPUTS) $(DEV)
	$(BIN)/python $(PIP_INSTALL) -e ".[dev,browser]"
	@touch $@

# An environment of its own for what the product must be tested without: torch, the official VAD package,
# vendors' clients, aiortc. A torch that is already there (a build of your choice) is kept when its version fits
# constraints.txt.
$(PARITY): $(INPUTS)
	@test -x $(PARITY_BIN)/python || $(PYTHON) -m venv $(PARITY_VENV)
	$(PARITY_BIN)/python $(PIP_INSTALL) torch
	$(PARITY_BIN)/python $(PIP_INSTALL) -e ".[dev,parity,peers,webrtc,m4a,prosody]"
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

# A local model's package, which its worker runs with small random weights.
$(MOSHI): $(MOSHI_REQUIREMENTS)
	@test -x $(MOSHI_BIN)/python || $(PYTHON) -m venv $(MOSHI_VENV)
	$(MOSHI_BIN)/python -m pip install --quiet --no-deps moshi==0.2.13
	$(MOSHI_BIN)/python -m pip install --quiet -r $(MOSHI_REQUIREMENTS)
	@touch $@

# A server that others wrote, for node. Without npm its tests are skipped, and say so.
$(AIMOCK):
	@if command -v npm >/dev/null; then npm install --silent --no-package-lock --no-audit --no-fund \
	--ignore-scripts --prefix $(AIMOCK_DIR) @copilotkit/aimock@1.43.0; else echo "no npm: without aimock"; fi

install: $(BASE)
install-dev: $(DEV)
install-parity: $(PARITY)
install-peers: $(PARITY) $(S2S) $(PIPECAT) $(MOSHI) $(AIMOCK)

run: $(BASE)
	$(BIN)/rig demo

# What plays in real time goes alone; the rest shares out the cores. PYTEST_ARGS: one plain run with those.
test: $(DEV)
ifeq ($(PYTEST_ARGS),)
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --ignore tests/conformance
	$(BIN)/python -m pytest tests/conformance
else
	$(BIN)/python -m pytest $(PYTEST_ARGS)
endif

test-slow: $(DEV)
	$(BIN)/python -m pytest -m "slow and not parity and not peer and not browser" $(PYTEST_ARGS)

test-all: $(DEV)
	$(BIN)/python -m pytest -m "not parity and not peer and not browser" $(PYTEST_ARGS)

test-browser: $(BROWSER)
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m browser tests/browser $(PYTEST_ARGS)

test-parity: $(PARITY)
	$(PARITY_BIN)/python -m pytest -m parity tests/parity $(PYTEST_ARGS)

# What the default tests skip where an extra is missing.
test-extras: $(PARITY)
	$(PARITY_BIN)/python -m pytest tests/unit/audio/test_m4a.py tests/unit/audio/test_prosody.py \
	tests/unit/rig/field/test_prosody.py tests/unit/rig/field/test_clusters.py \
	tests/unit/rig/field/test_words.py $(PYTEST_ARGS)

test-peers: install-peers
	DUPLEXRIG_AIMOCK="$$(ls $(AIMOCK) 2>/dev/null)" \
	DUPLEXRIG_S2S_PYTHON=$(S2S_BIN)/python DUPLEXRIG_PIPECAT_PYTHON=$(PIPECAT_BIN)/python \
	DUPLEXRIG_MOSHI_PYTHON=$(MOSHI_BIN)/python \
	$(PARITY_BIN)/python -m pytest -m peer tests/conformance tests/slow $(PYTEST_ARGS)

check: $(DEV)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

# Real sessions in real time, half a minute an adapter, webrtc (which needs aiortc) two; numbers are of
# this machine.
faults: $(PARITY)
	$(PARITY_BIN)/python tests/conformance/fault_table.py

# Building the suite takes minutes the first time; the floors themselves say what they took.
floors: $(BASE)
	$(BIN)/rig build dsb-ifeval --out out/floors/suite
	$(BIN)/rig floors out/floors/suite --out rig/data/floors.json --page docs/floors.md

# bench_vad needs torch as well: $(PARITY_BIN)/python bench/run.py --only vad, after install-parity.
bench: $(DEV)
	$(BIN)/python bench/run.py

screenshots: $(BROWSER)
	$(BIN)/python docs/screenshots.py

docs: $(DEV)
	$(BIN)/python docs/check_commands.py

clean:
	rm -rf $(VENV) $(PARITY_VENV) $(S2S_VENV) $(PIPECAT_VENV) $(MOSHI_VENV) $(AIMOCK_DIR) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache \
	.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
