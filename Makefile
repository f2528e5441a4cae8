# `make` lists the targets. The requirements are make and python3, 3.11 or newer. The first target creates .venv from the
# pins in requirements-dev.txt.

PYTHON ?= python3
PORT ?= 8000
MINUTES ?= 10
DATABASE ?= postgresql
BROKER ?= redis
PART ?= all
TEST_OPTIONS = $(if $(filter command,$(origin DATABASE)),--database=$(DATABASE)) $(if $(RETRY),--retry) \
	$(if $(ROWS),--rows=$(ROWS))
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
NEWER := .venv-newer
# Not pinned, because the pinned django-celery-beat does not declare support for this version.
DJANGO_6_1 := django==6.1.3
DJANGO_NEXT := django>=6.2a1
# Tests that do not run again with newer versions.
ON_ONE_DJANGO := house benchmarks acceptance example_project management
# Tests that depend more on Django than on Python. They run with the newest Django only, with the first row of each table
# of parameters: the rows try our rules, and Django does the same for each.
DJANGO_S := admin api checks emission maintenance metrics models operations owners pages portal probes replays routing
# One project without special settings, and one that calls every page, command and address of the API.
HOSTS_ON_NEWER := host[without_celery_sqlite] or everything_works
ON_NEWER = $(NEWER)/bin/python -m tests --database=sqlite --part=quick $(if $(RETRY),--retry)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Otherwise each of the tests' hundreds of processes would compile all of its imports.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo run test test-all test-newer soak simulate lint format types imports pictures docs bench release pins clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## Show the whole service at work, from registration to retries, in two minutes
	@$(BIN)/python -m example_project.demo

run: $(INSTALLED) ## Run the example service, a worker and beat in the foreground (PORT=8000)
	@PORT=$(PORT) $(BIN)/python -m example_project.run

test: $(INSTALLED) ## Run the quick tests, on SQLite and PostgreSQL (DATABASE=sqlite: only on that one; RETRY=1)
	@$(BIN)/python -m tests --part=quick $(TEST_OPTIONS)

test-all: $(INSTALLED) ## Run all tests, on every database and broker of this machine (PART=rest: not those of `make test`; ROWS=all)
	@$(BIN)/python -m tests --part=$(PART) $(TEST_OPTIONS)

test-newer: ## Run the quick tests on SQLite with a newer Python and Django 6.0, 6.1 and the next one, in .venv-newer (PYTHON=python3.12 …)
	@$(MAKE) --no-print-directory VENV=$(NEWER) $(NEWER)/.installed
	$(ON_NEWER) $(ON_ONE_DJANGO:%=--ignore=tests/%) $(DJANGO_S:%=--ignore=tests/%)
	$(NEWER)/bin/pip install --quiet --no-compile --target $(NEWER)/django-6.1 --no-deps --upgrade $(DJANGO_6_1)
	PYTHONPATH=$(NEWER)/django-6.1 $(ON_NEWER) --rows=first --ignore=tests/api/test_contract.py $(DJANGO_S:%=tests/%)
	PYTHONPATH=$(NEWER)/django-6.1 $(NEWER)/bin/python -m pytest --quiet tests/hosts/test_hosts.py -k "$(HOSTS_ON_NEWER)"
	@if $(NEWER)/bin/pip install --quiet --no-compile --pre --target $(NEWER)/django-next --no-deps --upgrade \
		"$(DJANGO_NEXT)" 2>/dev/null; \
	then PYTHONPATH=$(NEWER)/django-next $(ON_NEWER) --rows=first --ignore=tests/api/test_contract.py $(DJANGO_S:%=tests/%); \
	else echo "There is no $(DJANGO_NEXT) yet."; fi

soak: $(INSTALLED) ## Inject faults at random and count (MINUTES=10 DATABASE=postgresql BROKER=redis SEED=… CHOICES=1)
	@$(BIN)/python -m tests.faults.soak --minutes $(MINUTES) --database $(DATABASE) --broker $(BROKER) $(SEED:%=--seed %) $(if $(CHOICES),--choices)

simulate: $(INSTALLED) ## Run simulated histories of workers with faults at every step (MINUTES=10 SEED=…: print one)
	@$(BIN)/python -m tests.simulation --minutes $(MINUTES) $(SEED:%=--seed %)

lint: $(INSTALLED) ## Check style, formatting and prose: ruff, django-upgrade, word-for-word translations
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@git ls-files -z '*.py' | xargs -0 $(BIN)/django-upgrade --check --target-version 5.2
	@$(BIN)/python -m tests.house.prose

format: $(INSTALLED) ## Apply the automatic fixes of lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	@git ls-files -z '*.py' | xargs -0 $(BIN)/django-upgrade --exit-zero-even-if-changed --target-version 5.2

types: $(INSTALLED) ## Check types: mypy, strict
	$(BIN)/mypy

imports: $(INSTALLED) ## Check that imports point downwards only
	$(BIN)/lint-imports

pictures: $(INSTALLED) ## Retake the pictures of the documentation, with demo data
	$(BIN)/python -m pytest --quiet tests/browser/pictures.py tests/browser/customers_pictures.py

docs: $(INSTALLED) ## Build the documentation site into build/docs; a warning is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env --builder html docs build/docs
	@echo "Open build/docs/index.html"

bench: $(INSTALLED) ## Measure everything on this machine, more than an hour (QUICK=1: 15 minutes)
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

release: $(INSTALLED) ## Build what a release uploads into dist/, twice, and try it in empty environments
	$(BIN)/python release.py

pins: $(INSTALLED) ## Update requirements-dev.txt from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras --group dev --no-annotate \
		--no-emit-index-url --custom-compile-command "make pins" --output-file requirements-dev.txt pyproject.toml

clean: ## Remove .venv and the files of the tools
	rm -rf $(VENV) build dist var .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# uv needs a seventh of pip's time, but ignores pip's settings: if it fails, as with an index that only pip knows, pip installs.
$(INSTALLED): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is missing or older than Python 3.11; name a newer one: make PYTHON=python3.12 …" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot create a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Installing the pinned requirements into $(VENV) …"
	@$(BIN)/pip install --quiet --no-compile uv \
		&& $(BIN)/uv pip install --quiet --python $(BIN)/python --requirement requirements-dev.txt \
		|| $(BIN)/pip install --quiet --no-compile --requirement requirements-dev.txt
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
