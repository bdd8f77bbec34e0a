# Everything sets itself up: the first target on a new machine makes .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODEL := .cache/models/smollm2-135m-instruct

.PHONY: setup demo test chaos check format bench docs clean

setup: $(STAMP)

# torch first and by itself: asked for by another package, it comes in a far larger build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[engine,dev]'
	touch $(STAMP)

$(MODEL)/config.json: | $(STAMP)
	$(BIN)/python examples/models.py

demo: $(STAMP) $(MODEL)/config.json
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/demo.sh

# Tests of one file share what they set up, so a file stays with one process.
test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Random histories with killed workers and servers: 200 with the scripted trainer, 10 with a small
# model; 50 branches whose server dies; then SmolLM2, killed in its second epoch and branched,
# against an unbroken run.
chaos: $(STAMP) $(MODEL)/config.json
	$(BIN)/python -m tests.chaos

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/vulture

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)
	$(BIN)/python -m cli.reference > docs/cli.md
	$(BIN)/python -m tests.reference

bench: $(STAMP) $(MODEL)/config.json
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .cache build *.egg-info
