# EvenJoin: `make demo` and `make test` do all set-up themselves, from a fresh clone.
# Needs python3 (>= 3.10); Java 17+ is used when present and otherwise installed where that is allowed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.evenjoin-ready
DOCS_STAMP := $(VENV)/.evenjoin-docs-ready
ARGS   ?=
MINUTES ?= 2
SEED    ?= 1

# Homebrew's Java is not on the PATH; elsewhere this prints what is already set, or nothing.
JAVA_FOUND := $(shell sh .ci/system.sh home)
ifneq ($(JAVA_FOUND),)
export JAVA_HOME := $(JAVA_FOUND)
endif

.DEFAULT_GOAL := help
.PHONY: help setup java chromium demo test test-slow test-page pictures chaos lint format docs bench compare clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo "  ARGS='...' is handed on to demo, test, test-slow, chaos, bench and compare; PYTHON=... chooses the interpreter for .venv"

setup: $(STAMP)  ## a .venv with the pinned requirements and evenjoin itself

$(STAMP): requirements.txt pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || sh .ci/system.sh venv "$(PYTHON)"
	@echo "evenjoin: installing the pinned requirements into $(VENV) (once, a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

java:  ## Java 17+ is there, or is installed, or the command to do so is printed
	@sh .ci/system.sh java

demo: setup java  ## a ride-hailing day on local Spark, hash and auto side by side, about a minute
	@$(BIN)/evenjoin demo $(ARGS)

test: setup java  ## the fast tests, two at a time
	@$(BIN)/python -m pytest -n 2 --dist loadscope $(ARGS)

test-thorough: setup java  ## the properties with sixty times as many examples as in make test
	@EVENJOIN_EXAMPLES=20 $(BIN)/python -m pytest -n 2 tests/properties $(ARGS)

test-slow: setup java  ## the tests that take minutes
	@$(BIN)/python -m pytest -m slow $(ARGS)

test-page: setup java chromium  ## the page and the report in a real Chromium, against a running Spark query
	@$(BIN)/python -m pytest -m 'slow or not slow' tests/page tests/spark/test_live_page.py $(ARGS)

pictures: setup java chromium  ## take the pictures of the page and the report in docs/ anew
	@EVENJOIN_PICTURES=docs $(BIN)/python -m pytest -m slow tests/spark/test_live_page.py $(ARGS)

chromium:  ## Chromium is there, or is installed, or the command to do so is printed
	@sh .ci/system.sh chromium

chaos: setup java  ## joins killed, damaged and disturbed at random against DuckDB: make chaos MINUTES=10 SEED=1
	@PYTHONPATH=src:tests $(BIN)/python -m chaos --minutes $(MINUTES) --seed $(SEED) $(ARGS)

lint: setup  ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src

format: setup  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(DOCS_STAMP)  ## the documentation, built strictly into build/site: open build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "evenjoin: the documentation is in build/site/index.html (with search: python3 -m http.server -d build/site)"

$(DOCS_STAMP): $(STAMP) requirements-docs.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

bench: setup java  ## EvenJoin against Spark's own stream-stream join on the same files; saves build/bench/*.json
	@$(BIN)/python -m evenjoin.bench.run $(ARGS)
	@$(BIN)/python -m evenjoin.bench.growth

compare: setup java  ## strategies on the same skewed files: make compare ARGS='G22'; see evenjoin compare --help
	@$(BIN)/evenjoin compare $(ARGS)

clean:  ## everything made here, the .venv too
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
