# Every verb sets up what it needs on a machine that has only Python >= 3.11, pip, make and its package registries.

VENV   := .venv
PY     := $(VENV)/bin/python
# Override with `make PYTHON=/path/to/python test`. `python3` is preferred; else the newest that runs and is new enough.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
            $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help setup demo test test-slow lint format types bench golden docs dist clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r verb what; do \
	  printf '  make %-10s %s\n' "$$verb" "$$what"; done

$(PY):
	@test -n "$(PYTHON)" || { echo "edgekit needs Python 3.11 or newer: install it, or name it: make PYTHON=/path/to/python" >&2; exit 6; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
	  $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(PY) install --quiet pip; } || { rm -rf $(VENV); \
	  echo "cannot make a virtual environment: install the venv module (Debian: apt-get install python3-venv python3-pip)" >&2; exit 6; }
	@$(PY) -m pip install --quiet --disable-pip-version-check 'pip>=25.1'

# A stamp holds the time of the last complete install: the second run of any verb is instant.
$(VENV)/demo.stamp: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/demo.stamp | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[demo]' --group dev
	@touch $@

setup: $(VENV)/dev.stamp ## everything a developer needs, in .venv

demo: $(VENV)/demo.stamp ## quantize, prove, package and run a real network: a few minutes
	@$(PY) examples/demo.py

test: setup ## the tests
	@$(PY) -m pytest

test-slow: setup ## the tests that take minutes or emulate another CPU
	@$(PY) -m pytest -m slow

lint: setup ## style, formatting and the direction of imports
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/lint-imports

format: setup ## write the formatting that `make lint` checks
	@$(VENV)/bin/ruff format .

types: setup ## mypy, strict
	@$(VENV)/bin/mypy

bench: setup ## the benchmarks, against their bars and the stored baseline: hours; NAMES="speed share" chooses
	@$(PY) -m benchmarks run $(NAMES)

golden: setup ## write the golden files again; review the diff
	@$(PY) tests/golden/make_contract_models.py

docs: setup ## write the generated pages of docs/ again
	@$(PY) -m docs.generate

dist: setup ## sdist, and the wheel made from it, in dist/
	@rm -rf dist
	@$(PY) -m build --outdir dist

clean: ## remove what the verbs made
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
