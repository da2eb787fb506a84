PYTHON ?= python3
TORCH ?= torch==2.13.0
DATA ?= ../shared/data
ENCODER ?= ../shared/encoders/all-MiniLM-L6-v2

# Every path is relative, so that the path of the checkout may hold spaces.
VENV := .venv
RUN = "$(VENV)/bin/python"
LOWEST = "$(PYTHON)" tests/packaging/lowest_requirements.py
# Models as small as those of the tests gain nothing from a second thread.
# A file stays in one process: it shares what is dear to build.
PYTEST = OMP_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist loadfile --durations 15

# $(1): torch, $(2): other requirements. Without a GPU the index of CPU builds comes in, where 2.13.0+cpu sorts above
# the 2.13.0 of PyPI; pip goes on without it where it cannot be reached.
define build_environment
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10) and "msattn needs Python 3.10 or newer: make PYTHON=...")'
	@echo "Building $(VENV), which takes some minutes, once"
	@"$(PYTHON)" -m venv $(VENV)
	@index=$$(nvidia-smi -L >/dev/null 2>&1 || echo --extra-index-url https://download.pytorch.org/whl/cpu); \
	$(RUN) -m pip install --retries 2 --no-deps $$index $(1)
	@$(RUN) -m pip install --quiet $(1) $(2) --editable ".[dev,crf,parsing]"
	@touch $@
endef

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-min check lint types format bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: .venv/.ready ## train, score, reload and use a small relation extractor (outputs/demo)
	@$(RUN) run_re.py

test: .venv/.ready ## run the tests and print their coverage
	@$(PYTEST) -m "not slow" --cov

test-slow: .venv/.ready ## run the tests on real data (DATA=folder ENCODER=folder)
	@data=$$(cd "$(DATA)" && pwd) && encoder=$$(cd "$(ENCODER)" && pwd) && \
	MSATTN_DATA="$$data" MSATTN_ENCODER="$$encoder" $(PYTEST) -m slow

test-min .venv-min/.ready: VENV := .venv-min
test-min: .venv-min/.ready ## run the tests on the lowest versions that setup.cfg allows
	@$(PYTEST) -m "not slow"

check: lint types test ## lint, types and test

lint: .venv/.ready ## look for errors and for code that is not formatted
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

# mypy follows no import hook: it gets the source folders laid out as the package that an installation makes of them.
types: .venv/.ready ## check the types
	@rm -rf build/types && mkdir -p build/types/msattn
	@cd build/types/msattn && ln -s ../../../plugin/* ../../../configuration ../../../modeling .
	@$(RUN) -m mypy --package msattn
	@$(RUN) -m mypy run_*.py benchmarks

format: .venv/.ready ## format the code
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

bench: .venv/.ready ## measure the fusion layer beside plain attention
	@$(RUN) benchmarks/bench_multiscale.py

clean: ## remove what was built and cached; the environments and outputs/ stay
	@rm -rf build dist msattn.egg-info .coverage* .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -not -path "./.venv*" -prune -exec rm -rf {} +

.venv/.ready: setup.cfg pyproject.toml
	$(call build_environment,"$(TORCH)")

.venv-min/.ready: setup.cfg pyproject.toml tests/packaging/lowest_requirements.py
	$(call build_environment,$$($(LOWEST) | grep ^torch=),$$($(LOWEST)))
