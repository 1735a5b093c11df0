# Every target sets up what it needs: a fresh machine needs only make and Python 3.11 or newer.

ARGS ?=
AREA ?= wire
BIN := .venv/bin
READY := .venv/ready
# Slow tests run in CI; elsewhere ask for them: make test ARGS='-m slow'
MARKS := $(if $(filter true 1,$(CI)),,-m "not slow")
# Spark and the tests start many processes: none of them should compile the same sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test bench lint format lock java clean

help: ## list the targets (the default)
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## make .venv from requirements.lock; every other target does it when needed

demo: $(READY) ## the whole system on this machine
	@tools/java.sh hint
	$(BIN)/thinwire demo $(ARGS)

test: $(READY) ## lint, types, layer contract, then every test and every documented example
	@tools/java.sh hint
	@PYTHONPATH=. $(BIN)/python tests/kernels.py & compiling=$$!; PYTHONPATH=. $(BIN)/python tests/java_classes.py & keeping=$$!; \
	    $(MAKE) --no-print-directory lint && { wait $$keeping; wait $$compiling; }
	$(BIN)/pytest -n 3 $(MARKS) $(ARGS)

bench: $(READY) ## bytes and time, ours beside the usual; AREA=wire or live, ARGS='...' is passed on
	$(BIN)/thinwire bench $(AREA) $(ARGS)

lint: $(READY) ## style, formatting, types and the layer contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY) ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## resolve requirements.lock again; ARGS=--upgrade for newer versions
	tools/uv.sh pip compile tools/requirements.in --group dev --universal --python-version 3.11 --generate-hashes \
	    --no-emit-package thinwire --no-emit-package thinwire-lab --no-emit-index-url --no-emit-find-links --no-header \
	    --quiet $(ARGS) -o requirements.lock

java: ## install Java 17 for Spark where the system allows it, else say how
	tools/java.sh install

clean: ## remove the environment and every cache; results in runs/ stay
	rm -rf .venv .tools .numba_cache build dist .java_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests lab -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml lab/pyproject.toml $(wildcard tools/*.sh)
	tools/setup.sh
	@touch $@
