# `make` lists what can be done. Everything is installed into .venv; nothing else on the machine changes.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# What is installed follows from these two; a newer one of them means: install again.
LISTS := pyproject.toml constraints.txt

# One BLAS thread: the matrices here are small, and more threads only burn CPU.
test coverage test-latest bench faults services: export OPENBLAS_NUM_THREADS := 1

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- installing -------------------------------------------------------------------------------------------------------

$(BIN)/python:
	@for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        echo "$$("$$candidate" --version) makes $(VENV)"; \
	        "$$candidate" -m venv --clear $(VENV) && exit 0; rm -rf $(VENV); exit 1; \
	    fi; \
	done; \
	echo "No Python of version 3.11 or newer with its venv module was found (tried: $(PYTHON) python3 python3.13 python3.12 python3.11)." >&2; \
	echo "Install one (on Debian: python3 and python3-venv), or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/.installed: $(BIN)/python $(LISTS)
	@echo 'Installing into $(VENV), which takes a minute or two the first time'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[local,cli,examples]'
	@touch $@

# A superset of the above, so that one install serves both.
$(VENV)/.installed-dev: $(BIN)/python $(LISTS)
	@echo 'Installing into $(VENV), which takes a minute or two the first time'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[local,examples,dev]'
	@touch $(VENV)/.installed $@

# --- using ------------------------------------------------------------------------------------------------------------

.PHONY: quickstart
quickstart: $(VENV)/.installed ## remember a conversation and ask about it, on Milvus Lite
	$(BIN)/python examples/quickstart.py

# The same examples for every clone: a new finding of hypothesis must not fail somebody's unrelated change. `test-latest`
# looks for new ones.
.PHONY: test
test: $(VENV)/.installed-dev ## lint, type check and run every test, as CI does
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/pytest --numprocesses 2 --dist loadfile --hypothesis-profile ci

# Apart from `test`, because measuring branches makes the tests a third slower.
.PHONY: coverage
coverage: $(VENV)/.installed-dev ## run every test, and tell which branches none of them takes
	$(BIN)/pytest --numprocesses 2 --dist loadfile --hypothesis-profile ci --cov --cov-report=term

.PHONY: bench
bench: $(VENV)/.installed-dev ## measure against the budgets (a report, not a test)
	$(BIN)/python -m tests.benchmarks

.PHONY: faults
faults: $(VENV)/.installed-dev ## kill, break and wear the memory down, and count what is lost (takes long)
	$(BIN)/python -m tests.faults $(ARGS)

.PHONY: services
services: $(VENV)/.installed-dev ## start the loopback servers that the tests use, to look at them
	$(BIN)/python -m tests.services start

.PHONY: services-stop
services-stop: $(VENV)/.installed-dev ## stop them
	$(BIN)/python -m tests.services stop

# --- keeping up -------------------------------------------------------------------------------------------------------

.PHONY: lock
lock: $(BIN)/python ## write constraints.txt anew, with the newest releases that fit
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/python -m venv "$$folder/venv"; \
	"$$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv; \
	"$$folder/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --upgrade --no-annotate \
	    --custom-compile-command 'make lock' --all-extras --output-file constraints.txt pyproject.toml
	@echo "constraints.txt: $$(grep -c == constraints.txt) releases"

VENDOR := jiuwen_memory/viewer/static/vendor
.PHONY: viewer-libraries
viewer-libraries: ## fetch the viewer's JavaScript anew, in the releases of its package.json (needs npm)
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	cp $(VENDOR)/package.json "$$folder"; \
	npm install --prefix "$$folder" --ignore-scripts --no-audit --no-fund --no-package-lock --silent; \
	for name in cytoscape d3-dispatch d3-force d3-quadtree d3-timer; do \
	    install -m 644 "$$folder/node_modules/$$name/dist/$$name.min.js" $(VENDOR)/; \
	    install -m 644 "$$folder/node_modules/$$name/LICENSE" $(VENDOR)/$$name.LICENSE; \
	done

.PHONY: test-latest
test-latest: $(BIN)/python ## run the tests against the newest releases and with new examples, in a venv of their own
	$(BIN)/python -m venv --clear .venv-latest
	.venv-latest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[local,examples,dev]'
	.venv-latest/bin/pytest --numprocesses 2 --dist loadfile

SERVICE := pypi
.PHONY: audit
audit: $(VENV)/.installed-dev ## look up the releases in constraints.txt among known weaknesses (asks PyPI, or SERVICE=osv)
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/python -m venv "$$folder/venv"; \
	"$$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pip-audit; \
	"$$folder/venv/bin/pip-audit" --no-deps --disable-pip --progress-spinner off --vulnerability-service $(SERVICE) \
	    --requirement constraints.txt --format json --output "$$folder/found.json" || true; \
	$(BIN)/python -m tests.audit "$$folder/found.json"

.PHONY: clean
clean: ## remove everything that make and the tests have made
	-@if [ -x $(BIN)/python ] && [ -d .services ]; then $(BIN)/python -m tests.services stop; fi
	rm -rf .venv .venv-latest .services .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find jiuwen_memory tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
