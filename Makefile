PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: bench test clean

# Installs what is needed and times add2 on this machine's CUDA device, or on its CPU.
bench: $(VENV)/installed
	$(BIN)/cudabench run --n 1048576

# Everything that must pass.
test: $(VENV)/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(PIP) -e '.[test]'
	@touch $@

clean:
	rm -rf $(VENV)
