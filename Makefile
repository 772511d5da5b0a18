# Each target prepares .venv from requirements.lock first, when that is needed. `python3` can be overridden: make PYTHON=python3.12 plan
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BOOK ?= data/enterprise
LAB ?= $(BOOK)

.PHONY: plan test lab bench lock clean

plan: $(READY)
	$(BIN)/capplan plan $(BOOK)

test: $(READY)
	$(BIN)/ruff check capplan tests benchmarks tools
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist worksteal capplan tests

lab: $(READY)
	$(BIN)/capplan lab $(LAB)

bench: $(READY)
	$(BIN)/python -m pytest benchmarks --benchmark-group-by=group --benchmark-columns=mean,stddev,rounds --benchmark-sort=name

# uv installs the same lock in a fraction of the time, where it is there.
$(READY): requirements.lock pyproject.toml
	@echo "capplan: preparing .venv from requirements.lock (a minute or two, once)"
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) .venv && uv pip install --quiet --python $(BIN)/python -r requirements.lock && uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
	  $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off -r requirements.lock && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

# Names and versions only; needs uv.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url --group test pyproject.toml -o requirements.lock

clean:
	rm -rf .venv build dist
