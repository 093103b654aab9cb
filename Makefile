# Everything a newcomer needs: make demo, make test. Nothing outside this folder but pip's cache.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE := 1
export MPLCONFIGDIR := $(CURDIR)/.cache/matplotlib

.PHONY: demo quick test full soak bench try-wheel docs docs-tables dist release lint lock yardsticks clean

.venv/.installed: pyproject.toml requirements.lock
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("dsba needs Python 3.11 or later, this is " + sys.version)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: .venv/.installed  ## the paper's experiments on embedded data; figures and a page in demo/
	$(BIN)/dsba reproduce --out demo

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The files of `make quick`: they compile little, start few processes, and take under a minute without compiled kernels.
QUICK := tests/algorithms/test_sampling.py tests/cli/test_train_help.py tests/data/test_table_files.py \
	tests/graph/test_topology.py tests/lab/test_messages_of_files.py tests/lab/test_specifications.py \
	tests/network/test_exact_sum.py tests/problem/test_bad_numbers.py tests/storage/test_files.py \
	tests/study/test_study.py tests/tables/test_formula_roles.py tests/tables/test_table_refusals.py \
	tests/tables/test_units.py tests/test_architecture.py tests/test_names.py tests/test_tiers.py

quick: .venv/.installed  ## at most a minute: the tests of the files above
	$(BIN)/python -m pytest -n 2 --dist worksteal $(QUICK)

test: lint  ## the gate, at most ten minutes: linters, and every stress test at 1 % of its scale
	$(BIN)/python -m pytest -n 3 --dist worksteal --durations=15

full: lint  ## at most 75 minutes: all combinations of parameters, the wheel, and the lines that tests reach
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=30 -m "" --cov --cov-report=term

soak: .venv/.installed  ## about two hours, resumable: a million mutated inputs, hundreds of kills
	$(BIN)/python -m tests.soak

bench: .venv/.installed  ## ratios measured in one run; DSBA_DATA=folder for the real data sets
	$(BIN)/python -m benchmarks

try-wheel: .venv/.installed  ## the wheel in empty environments: README, a study, a comparison; seconds and megabytes of each
	$(BIN)/python -m benchmarks.installed

SUBJECTS := cohort cox curves families classes meta mixed elastic_net after_fit description formulas worked
yardsticks:  ## reference values from R, made again; tests/yardsticks/README.md names the packages
	cd tests/yardsticks && for subject in $(SUBJECTS); do OMP_NUM_THREADS=1 Rscript --vanilla $$subject.R || exit 1; done

.venv/.docs: .venv/.installed docs/requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r docs/requirements.lock
	touch $@

docs: .venv/.docs  ## the documentation site, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

docs-tables: .venv/.installed  ## the measured tables of the documentation, from docs/results; says which are stale
	$(BIN)/python -m docs.tables

# Built twice, the files have the same bytes: their times are those of the last commit, and no umask is in them.
dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
dist: .venv/.docs  ## the source archive, the wheel and the list of what it brings (SBOM), in dist/
	rm -rf dist build && $(BIN)/python -m build --quiet --no-isolation --outdir dist .
	$(BIN)/python .ci/repack.py dist/*
	$(BIN)/python .ci/sbom.py dist

release: dist docs full  ## everything that a release needs; it is published by hand; no table may be stale
	$(BIN)/python -m docs.tables --check
	@echo "dist/, site/"

lock:  ## the newest versions that work together, with hashes; run the tests before you commit them
	rm -rf .cache/lock && $(PYTHON) -m venv .cache/lock
	.cache/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) --extra dev --output-file requirements.lock
	$(COMPILE) --extra docs --extra release --constraint requirements.lock --output-file docs/requirements.lock

COMPILE = .cache/lock/bin/uv pip compile pyproject.toml --quiet --upgrade --universal --generate-hashes --no-header --no-annotate

clean:
	rm -rf .venv .cache demo results build dist site
