# Every target does its own set-up: a virtual environment in .venv, made anew only when pyproject.toml changes.
# Nothing but make, a C compiler and Python 3.11 or newer (with its venv module) is needed beforehand.

PYTHON ?= $(or $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,\
  $(shell $(p) -c 'import sys; sys.version_info < (3, 11) or print("$(p)")' 2>/dev/null))),python3)
ifeq ($(origin CC),default)
CC := $(notdir $(firstword $(shell command -v cc) $(shell command -v gcc) $(shell command -v clang) cc))
endif
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SQUEEZENET := $(VENV)/squeezenet.onnx
SHUFFLENET := $(VENV)/shufflenet.onnx
MODEL ?= $(SQUEEZENET)
export CC
# Bytecode is kept, whatever the caller's Python does: the tests start hundreds of processes that read the same files, and a
# run of the demo would spend a second or two on it. The set-up makes it.
test quick campaign demo demo-fault: export PYTHONDONTWRITEBYTECODE :=
test quick campaign demo demo-fault: export PYTHONPYCACHEPREFIX :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-fault test lint types quick bench campaign mutants docs site wheel clean compiler

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  Variables: PYTHON=$(PYTHON) CC=$(CC) JOBS=$(JOBS); for demo also MODEL=path/to/model.onnx"

demo: $(READY) compiler $(SQUEEZENET) ## check a real model (squeezenet) from import to compiled C, ONNX Runtime judged too
	$(BIN)/assay check "$(MODEL)" --backend onnxruntime

demo-fault: $(READY) compiler $(SHUFFLENET) ## plant a fault in a pass and one in a backend, and show that both are found
	@echo 'A pass that writes batch norms out, and forgets the square root (tests/zoo/demo_faults.py):'
	$(BIN)/assay check "$(SHUFFLENET)" --passes 'own[run=tests.zoo.demo_faults:by_variance]' --stop-after own; test $$? -eq 1
	@echo; echo 'A backend that takes the two sizes of a channel shuffle for each other:'
	$(BIN)/assay judge "$(SHUFFLENET)" --backend tests.zoo.demo_faults:shuffled --kinds random; test $$? -eq 1
	@echo; echo 'Both were found.'

test: $(READY) compiler lint types ## lint, types and all tests but the long random runs and the benchmarks
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

quick: $(READY) compiler ## the tests without the slow ones
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not campaign and not bench"

lint: $(READY) ## ruff: its rules (complexity, docstrings, length of lines among them), and the layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

types: $(READY) ## mypy, strict
	$(BIN)/mypy

bench: $(READY) compiler ## the benchmarks, each peer beside us in one run
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	$(BIN)/python -m pytest -q -m bench -s tests/bench

campaign: $(READY) compiler ## the long random runs
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m campaign --hypothesis-profile campaign

mutants: $(READY) compiler ## small faults in our own code, and which of them the tests notice: specs/mutants.md; goes on where it ended
	$(BIN)/python -m tests.mutation --jobs $(JOBS) --write

docs: $(READY) ## write the generated pages: specs/operators.md, specs/grammar.md, specs/rows.md, specs/labels.md, specs/museum.md, specs/tour.md
	$(BIN)/python -m tests.docs .
	$(BIN)/python -m tests.museum --write
	$(BIN)/python -m tests.tour --write

site: $(READY) ## build the site of what is under specs/ into site/, and say what leads nowhere
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m tests.docs.site -o site

wheel: $(READY) ## build the wheel and the source archive into dist/
	$(BIN)/python -m build

clean: ## remove the environment, the caches and what was built
	rm -rf $(VENV) build dist site *.egg-info .src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find semantics interp lower verify tests -name __pycache__ -type d -prune -exec rm -rf {} +

# models that come with the onnx package, whose weights are one number over and over, with weights that show something
$(SQUEEZENET): $(READY)
	@$(BIN)/python -m tests.zoo.light squeezenet --image 32 -o $@

$(SHUFFLENET): $(READY)
	@$(BIN)/python -m tests.zoo.light shufflenet -o $@

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "make: Python 3.11 or newer is needed, and '$(PYTHON)' is not one; say which with: make PYTHON=/path/to/python" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "make: '$(PYTHON)' has no venv module (Debian, Ubuntu: apt install python3-venv); or say another with: make PYTHON=/path/to/python" >&2; exit 2; }
	@echo 'setting up $(VENV), once; this downloads about 150 MB and takes a minute or two'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@env -u PYTHONPYCACHEPREFIX $(BIN)/python -m compileall -q -j 0 semantics interp lower verify
	@touch $@

compiler:
	@command -v $(firstword $(CC)) >/dev/null || \
	  { echo "make: no C compiler '$(CC)' (Debian, Ubuntu: apt install gcc); or say another with: make CC=/path/to/cc" >&2; exit 2; }
