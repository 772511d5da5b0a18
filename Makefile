# Each target prepares .venv from requirements.lock first, when that is needed. `python3` can be overridden: make PYTHON=python3.12 plan
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BOOK ?= data/enterprise
LAB ?= $(BOOK)

.PHONY: plan test quick nightly lab bench facts mutants lock clean

plan: $(READY)
	$(BIN)/capplan plan $(BOOK)

test: $(READY)
	$(BIN)/ruff format --check capplan tests benchmarks tools
	$(BIN)/ruff check capplan tests benchmarks tools
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist worksteal capplan tests

# What a change is tried against while it is made: no browser, no office, nothing above two seconds.
quick: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not browser and not office and not slow" capplan tests

# The same code as in `make test`, for longer: 10,000 hostile files, assumptions and command lines, and 50 plans that are killed with their notebooks.
nightly: $(READY)
	CAPPLAN_FUZZ_CASES=10000 CAPPLAN_KILLS=50 $(BIN)/python -m pytest tests/faults/test_fuzz.py tests/faults/test_fuzz_commands.py tests/faults/test_killed.py

lab: $(READY)
	$(BIN)/capplan lab $(LAB)

facts: $(READY)
	PYTHONPATH=. $(BIN)/python tools/check_facts.py

# Whether the tests notice small wrong changes, made one at a time in a copy; an hour or two for all, so not a part of `make test`.
# A run that was stopped goes on where it was.
EVERY ?= 1
mutants: $(READY)
	$(BIN)/python -m tests.mutants.run --every $(EVERY)

bench: $(READY)
	$(BIN)/python -m pytest benchmarks --benchmark-group-by=group --benchmark-columns=mean,stddev,rounds --benchmark-sort=name

# uv installs the lock in a fraction of pip's time; where it is missing, pip puts it into a scratch environment. Byte code is compiled once, here,
# since some environments never write it.
$(READY): requirements.lock pyproject.toml
	@echo "capplan: preparing .venv from requirements.lock (less than a minute, once)"
	@set -e; UV=$$(command -v uv || true); scratch=; \
	if [ -z "$$UV" ]; then \
	  scratch=$$(mktemp -d); $(PYTHON) -m venv $$scratch && $$scratch/bin/python -m pip install --quiet --disable-pip-version-check --progress-bar off uv; UV=$$scratch/bin/uv; \
	fi; \
	$$UV venv --quiet --allow-existing --python $(PYTHON) .venv; \
	$$UV pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.lock; \
	$$UV pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q capplan; \
	if [ -n "$$scratch" ]; then rm -rf $$scratch; fi
	@touch $@

# Names and versions only; needs uv.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url --group test pyproject.toml -o requirements.lock

clean:
	rm -rf .venv build dist
