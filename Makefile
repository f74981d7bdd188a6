# Everything runs in this project's own environment, .venv, which `make` builds on first use.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-fast test-long test-probing lint types bench format clean
.DEFAULT_GOAL := demo

demo: $(READY)
	$(BIN)/solvable reproduce msfr/fig2 msfr/fig3 --out out

# One thread of linear algebra for each of the two workers: more of them wait for each other.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal
test: lint types
	$(PYTEST) -m 'not long' $(if $(CI),--durations=25)

# For the inner loop: no figures, no browser, nothing that takes seconds by itself.
test-fast: $(READY)
	$(PYTEST) -q -m 'not slow and not long' tests

test-long: $(READY) test-probing
	$(PYTEST) -m long

# What needs a language model skips elsewhere; here it must run, with a CPU's build of torch.
TORCH ?= torch==2.13.0
test-probing: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(TORCH) --editable '.[dev,probing]'
	SOLVABLE_PROBING=1 $(PYTEST) -m 'not long' tests/single_location/test_sl_probing.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(READY)
	$(BIN)/pytest benchmarks -p no:xdist --benchmark-only

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv out .pytest_cache .ruff_cache .hypothesis

# Rebuilt when the requirements change; the mark is written last, so a broken set-up is redone.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "solvable needs Python 3.11 or newer (set PYTHON=...)"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "solvable needs Python 3.11 or newer; $(PYTHON) is older (set PYTHON=...)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
