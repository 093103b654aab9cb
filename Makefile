# Everything a newcomer needs: make demo, make test. Nothing outside this folder but pip's cache.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE := 1
export MPLCONFIGDIR := $(CURDIR)/.cache/matplotlib

.PHONY: demo test quick bench docs lint clean

.venv/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("dsba needs Python 3.11 or later, this is " + sys.version)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: .venv/.installed  ## the paper's experiments on embedded data; figures and a page in demo/
	$(BIN)/dsba reproduce --out demo

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## ruff, mypy, the whole test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=15

quick: .venv/.installed  ## the fast subset
	$(BIN)/python -m pytest -n 2 -m "not slow"

bench: .venv/.installed  ## ratios measured in one run; DSBA_DATA=folder for the real data sets
	$(BIN)/python -m benchmarks

.venv/.docs: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

docs: .venv/.docs  ## the documentation site, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

clean:
	rm -rf .venv .cache demo results build site
