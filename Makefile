PYTHON ?= python3
TORCH ?= torch==2.13.0
DATA ?= ../shared/data
SEED ?= 0
SPACE ?= outputs/space
# One checkpoint of a task: reference models, as `make models HUB=somebody` names them.
MODELS ?= $(if $(HUB),$(patsubst %,$(HUB)/msattn-%,tagger relations parser-ewt))
ENCODER ?= ../shared/encoders/all-MiniLM-L6-v2

# Every path is relative, so that the path of the checkout may hold spaces.
VENV := .venv
RUN = "$(VENV)/bin/python"
LOWEST = "$(PYTHON)" tests/packaging/lowest_requirements.py
# A variable, since a comma would end the argument of a call.
LOWEST_EXTRAS = ".[dev,docs,train,app,crf,onnx,oracles]"
# The editable package is a tree of links to these files: another list of them is another tree.
FILES := $(shell find configuration model_cards modeling plugin run_*.py -type f -not -name '*.pyc' | sort | cksum | tr ' ' -)
# Models as small as those of the tests and the demo gain nothing from a second thread.
# A file stays in one process: it shares what is dear to build. What their processes import is compiled once, also where
# the environment says PYTHONDONTWRITEBYTECODE.
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n auto --dist loadfile --durations 15

# $(1): torch, $(2): other requirements. Without a GPU the index of CPU builds comes in, where 2.13.0+cpu sorts above
# the 2.13.0 of PyPI; pip goes on without it where it cannot be reached.
define build_environment
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10) and "msattn needs Python 3.10 or newer: make PYTHON=...")'
	@echo "Building $(@D), which takes some minutes, once"
	@"$(PYTHON)" -m venv $(@D)
	@index=$$(nvidia-smi -L >/dev/null 2>&1 || echo --extra-index-url https://download.pytorch.org/whl/cpu); \
	"$(@D)/bin/python" -m pip install --retries 2 --no-deps $$index $(1)
	@"$(@D)/bin/python" -m pip install --quiet $(1) $(2)
	@touch $@
endef

define install_links
	@"$(@D)/bin/python" -m pip install --quiet --no-deps --editable .
	@rm -f $(@D)/.links-* && touch $@
endef

RECIPES := $(basename $(notdir $(wildcard model_cards/reference/recipes/*.yaml)))

.DEFAULT_GOAL := help
.PHONY: help demo space models test coverage test-quick test-slow test-faults test-fuzz test-notebooks test-min check lint types format bench verdicts docs dist clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

demo: .venv/.links-$(FILES) ## train, score, reload and use a small relation extractor (ENCODER=folder; outputs/demo)
	@ENCODER="$(if $(filter file,$(origin ENCODER)),$(wildcard $(ENCODER)),$(ENCODER))" OMP_NUM_THREADS=1 $(RUN) run_re.py

space: .venv/.tools .venv/.links-$(FILES) ## write a folder for a Space of the Hub (HUB=somebody or MODELS="owner/name ..."; SPACE=folder)
	@$(RUN) -m msattn_command app $(MODELS) --space "$(SPACE)"

test: .venv/.tools .venv/.links-$(FILES) ## run the tests
	@$(PYTEST) -m "not slow"

coverage: .venv/.tools .venv/.links-$(FILES) ## run the tests and print their coverage, in half as much time again
	@$(PYTEST) -m "not slow" --cov

test-quick: .venv/.tools .venv/.links-$(FILES) ## run the tests but those that train by scripts, start processes or compile
	@$(PYTEST) -m "not slow and not heavy" --ignore tests/scripts

test-slow: .venv/.tools .venv/.links-$(FILES) ## run the tests on real data (DATA=folder ENCODER=folder)
	@data=$$(cd "$(DATA)" && pwd) && encoder=$$(cd "$(ENCODER)" && pwd) && \
	MSATTN_DATA="$$data" MSATTN_ENCODER="$$encoder" $(PYTEST) -m slow

test-faults: .venv/.tools .venv/.links-$(FILES) ## kill runs at ten moments and resume them, fill the disk
	@$(PYTEST) tests/faults tests/plugin/test_writing.py

test-fuzz: .venv/.tools .venv/.links-$(FILES) ## damage files and inputs in ten thousand ways (SEED=number)
	@MSATTN_FUZZ_CASES=10000 MSATTN_FUZZ_SEED=$(SEED) $(PYTEST) --dist load tests/fuzz

test-notebooks: .venv/.tools .venv/.links-$(FILES) ## run the notebooks on small data
	@$(PYTEST) -m slow tests/docs/test_notebooks.py

test-min: VENV := .venv-min
test-min: .venv-min/.ready .venv-min/.links-$(FILES) ## run the tests on the lowest versions that setup.cfg allows
	@$(PYTEST) -m "not slow"

check: lint types test ## lint, types and test

lint: .venv/.tools ## look for errors and for code that is not formatted
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

types: .venv/.tools .venv/.links-$(FILES) ## check the types
	@$(RUN) -m mypy --package msattn
	@$(RUN) -m mypy run_*.py msattn_command.py benchmarks model_cards/reference

format: .venv/.tools ## format the code
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

models: $(RECIPES:%=model-%) ## train the reference models and write their cards; make model-tagger for one (outputs/models)

model-%: .venv/.tools .venv/.links-$(FILES)
	@$(RUN) model_cards/reference/build.py $* --data "$(DATA)" --encoder "$(ENCODER)" $(if $(HUB),--hub "$(HUB)")

bench: .venv/.links-$(FILES) ## measure the fusion layer beside plain attention
	@$(RUN) benchmarks/bench_multiscale.py

verdicts: .venv/.links-$(FILES) ## write the verdicts on the papers' claims from the recorded scores (papers/README.md)
	@$(RUN) papers/verdict.py

docs: .venv/.site .venv/.links-$(FILES) ## build the documentation site (build/site)
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build
	@echo 'See it: $(VENV)/bin/python -m http.server --directory build/site. Links that lead out: build/external_links.txt'

dist: ## build the sdist, and the wheel from it, and check both (dist)
	@rm -rf dist
	@"$(PYTHON)" -m venv build/release
	@build/release/bin/python -m pip install --quiet build twine
	@build/release/bin/python -m build --outdir dist
	@build/release/bin/python -m twine check --strict dist/*

clean: ## remove what was built and cached; the environments and outputs/ stay
	@rm -rf build/bdist* build/lib build/release build/site dist msattn.egg-info .coverage* .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -not -path "./.venv*" -prune -exec rm -rf {} +

.venv/.ready: setup.cfg pyproject.toml
	$(call build_environment,"$(TORCH)",--editable ".[train]")

.venv/.tools: .venv/.ready
	@.venv/bin/python -m pip install --quiet "$(TORCH)" --editable ".[dev,docs,train,app,crf,onnx,oracles,spacy,integrations]"
	@touch $@

.venv/.site: .venv/.ready
	@.venv/bin/python -m pip install --quiet "$(TORCH)" --editable ".[docs]"
	@touch $@

.venv-min/.ready: setup.cfg pyproject.toml tests/packaging/lowest_requirements.py
	$(call build_environment,$$($(LOWEST) | grep ^torch=),$$($(LOWEST)) --editable $(LOWEST_EXTRAS))

.venv/.links-$(FILES): .venv/.ready
	$(install_links)

.venv-min/.links-$(FILES): .venv-min/.ready
	$(install_links)
