# The commands of this project. `make` alone lists them.
# Everything is set up on first use, into .venv and .tools beside this file, and again only when pyproject.toml
# has changed; a second call starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# More words for the program behind a target: make start ARGS="--port 9093", make test ARGS="-k fetch -x".
ARGS ?=
# Two workers suit two cores; stealing keeps both busy though a few tests take most of the time.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help start venv setup static check test test-all bench dist clean distclean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

start: $(VENV)/.stamp-package  ## start a broker on 127.0.0.1:9092
	@exec $(BIN)/kbroker start $(ARGS)

venv: $(VENV)/.stamp-dev  ## make the virtual environment with all that development needs

setup: $(VENV)/.stamp-dev  ## also get kcat, Java and Apache Kafka for the tests, where they can be had
	@$(BIN)/python tools/setup.py

static: $(VENV)/.stamp-dev  ## formatting, lint, types and the direction of imports
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: static  ## the quick loop: static checks and the quick tests
	$(PYTEST) -m "not slow and not java and not heavy" $(ARGS)

test: setup static  ## the tests that prove the product, with all that they need set up first
	$(PYTEST) -m "not heavy" $(ARGS)

test-all: setup static  ## the heavy tests too
	$(PYTEST) $(ARGS)

bench: setup  ## compare kbroker with Apache Kafka, and print the ratios
	$(BIN)/python -m bench $(ARGS)

dist: $(VENV)/.stamp-dev  ## build the wheel and the source archive into dist/
	$(BIN)/python -m build --no-isolation

clean:  ## remove what was built and cached
	rm -rf dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean  ## remove the virtual environment and the downloaded tools too
	rm -rf $(VENV) .tools

# A stamp is written last, so a step that was interrupted is done again.
$(VENV)/.stamp-made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "kbroker needs Python 3.11 or newer, and $(PYTHON) is not. Name another: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo "making the virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.stamp-package: pyproject.toml $(VENV)/.stamp-made
	@echo "installing kbroker into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml tools/dependency_group.py $(VENV)/.stamp-made
	@echo "installing kbroker and its development tools into $(VENV) ..."
	@$(BIN)/python tools/dependency_group.py dev > $(VENV)/dev-requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --editable . --requirement $(VENV)/dev-requirements.txt
	@touch $@ $(VENV)/.stamp-package
