# Every target sets up what it needs, on a machine with Python 3.11 or later and pip, and does so again only when the
# requirements have changed. PYTHON=... chooses the interpreter.

VERSIONS := 3.11 3.12 3.13 3.14

# The first interpreter of version $(1) that runs: one on the PATH may be a shim of pyenv's that does not.
interpreter = $(shell for python in python$(1) $(wildcard $(HOME)/.pyenv/versions/$(1).*/bin/python$(1)); do \
	"$$python" -c "import venv" 2>/dev/null && echo "$$python" && break; done)

PYTHON = $(or $(firstword $(foreach version,$(VERSIONS),$(call interpreter,$(version)))),python3)
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check

# $(call environment,INTERPRETER,WHAT TO INSTALL): the recipe of a stamp file that lies in the environment.
define environment
	@echo "setting up $(@D)"
	@$(1) -m venv $(@D)
	@$(@D)/bin/python $(PIP_INSTALL) $(2)
	@touch $@
endef

.PHONY: demo test test-all bench clean

demo: .venv/demo.stamp
	.venv/bin/python examples/train_digits.py

test: .venv/test.stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy --strict aioflow examples
	.venv/bin/lint-imports
	.venv/bin/pytest -n 2

test-all:
	$(MAKE) --keep-going $(foreach version,$(VERSIONS),$(if $(call interpreter,$(version)),test-on-$(version)))

test-on-%: .venvs/%/test.stamp
	.venvs/$*/bin/pytest -n 2

bench: .venv-bench/bench.stamp
	.venv-bench/bin/python -m benchmarks --as-installed

clean:
	rm -rf .venv .venv-bench .venvs build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/demo.stamp: pyproject.toml
	$(call environment,$(PYTHON),-e .)

.venv/test.stamp: pyproject.toml
	$(call environment,$(PYTHON),-e '.[dev]')

.venv-bench/bench.stamp: pyproject.toml benchmarks/requirements.txt
	$(call environment,$(PYTHON),-e . -r benchmarks/requirements.txt)

.PRECIOUS: .venvs/%/test.stamp
.venvs/%/test.stamp: pyproject.toml
	$(call environment,$(call interpreter,$*),-e '.[dev]')
