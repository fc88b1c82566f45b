# Every target sets up what it needs, on a machine with Python 3.11 or later and pip, and does so again only when the
# requirements have changed. PYTHON=... chooses the interpreter.

VERSIONS := 3.11 3.12 3.13 3.14

# Tests start hundreds of processes: to compile everything anew takes each of them longer than all else they do.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter of version $(1) that runs: one on the PATH may be a shim of pyenv's that does not.
interpreter = $(shell for python in python$(1) $(wildcard $(HOME)/.pyenv/versions/$(1).*/bin/python$(1)); do \
	"$$python" -c "import venv" 2>/dev/null && echo "$$python" && break; done)

PYTHON = $(or $(firstword $(foreach version,$(VERSIONS),$(call interpreter,$(version)))),python3)
# Three workers for two cores: tests with processes wait for them. Each collects and runs its share of the files, as
# tests/support/shares.py divides them. The tests of a single file are divided by pytest-xdist.
PYTEST := pytest -n 3 --dist each --max-worker-restart 0
PYTEST_IN_FILES := pytest -n 3 --dist worksteal
# What is tested once more without oneDNN: the ops that have kernels by it, which are for float32.
NUMPY_ALONE := tests/devices/test_onednn.py tests/kernels/nn tests/kernels/linalg/test_linalg.py \
	tests/kernels/test_registry.py -k "not test_registry or narrow and (conv or pool or matmul or softmax or norm or activation)"
SERVING_PEERS := litserve bentoml mlserver
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check

# $(call environment,INTERPRETER,WHAT TO INSTALL): the recipe of a stamp file that lies in the environment.
define environment
	@echo "setting up $(@D)"
	@$(1) -m venv $(@D)
	@$(@D)/bin/python $(PIP_INSTALL) $(2)
	@touch $@
endef

.PHONY: demo docs stubs test types tests test-long test-all test-browser test-dask test-ray test-serving pictures soak bench oracle \
	onnx gpu clean

demo: .venv/demo.stamp
	.venv/bin/python examples/train_digits.py

test: .venv/test.stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	$(MAKE) --no-print-directory --jobs 2 types tests

# Types are checked beside the tests: mypy takes one core for half a minute or more, and would leave the other idle.
types: .venv/test.stamp
	.venv/bin/mypy --strict aioflow examples
	.venv/bin/lint-imports

# What is new is compiled once, not by each worker.
tests: .venv/test.stamp
	.venv/bin/python -m compileall -q aioflow
	.venv/bin/$(PYTEST)
	AIOFLOW_ONEDNN=off .venv/bin/$(PYTEST) $(NUMPY_ALONE)

# All cases, seeds and examples, of which `make test` tries a part; and whether that part finds planted faults.
test-long: .venv/test.stamp
	AIOFLOW_LONG=1 .venv/bin/$(PYTEST)
	AIOFLOW_LONG=1 AIOFLOW_ONEDNN=off .venv/bin/$(PYTEST) $(NUMPY_ALONE)
	.venv/bin/python -m tests.mutants

# What type checkers see of the public modules, made anew: needed when an op or a table of public names has changed.
stubs: .venv/test.stamp
	.venv/bin/python -m tests.typed.stubs

test-all:
	$(MAKE) --keep-going $(foreach version,$(VERSIONS),$(if $(call interpreter,$(version)),test-on-$(version)))

test-on-%: .venvs/%/test.stamp
	.venvs/$*/bin/$(PYTEST)
	AIOFLOW_ONEDNN=off .venvs/$*/bin/$(PYTEST) $(NUMPY_ALONE)

# Clients and servers of others, before the models of af.serving; the pages and the example that need them.
test-serving: .venv-serving/test.stamp
	.venv-serving/bin/python -m pytest engines/test_serving.py tests/test_documents.py -k serving

# The live page in a browser, which is installed where there is none: on Debian and its relatives, as root.
test-browser: .venv/test.stamp
	@command -v chromium || command -v google-chrome || command -v chromium-browser || \
		{ apt-get update && apt-get install --yes --no-install-recommends chromium fonts-dejavu-core; }
	.venv/bin/python -m pytest -n0 tests/dashboard/test_browser.py tests/dashboard/test_report.py

# Pictures of the live page, of a report, and of the notebook: make pictures PICTURES=folder
pictures: .venv/test.stamp
	AIOFLOW_PICTURES=$(or $(PICTURES),build/pictures) .venv/bin/python -m pytest -n0 tests/dashboard/test_browser.py tests/dashboard/test_report.py
	AIOFLOW_PICTURES=$(or $(PICTURES),build/pictures) AIOFLOW_LONG=1 .venv/bin/python -m pytest -n0 tests/notebook/test_tour.py

test-dask test-ray: test-%: .venv-%/test.stamp
	.venv-$*/bin/python -m pytest engines/test_$*.py tests/test_documents.py -k $*

# So many runs of each program on a simulated cluster, and so many cancels of each kind of what waits:
# make soak SEEDS=1000 CUTS=1000
soak: .venv/test.stamp
	STORM_CUTS=$(or $(CUTS),10000) .venv/bin/$(PYTEST_IN_FILES) tests/soak/test_soak_storms.py
	AIOFLOW_SEEDS=$(or $(SEEDS),20000) .venv/bin/$(PYTEST_IN_FILES) tests/net/test_cluster_faults.py tests/replication/test_replicas_faults.py

bench: .venv-bench/bench.stamp $(SERVING_PEERS:%=.venv-peers/%/bench.stamp)
	SERVING_PEERS=.venv-peers .venv-bench/bin/python -m benchmarks --as-installed

# What needs a GPU, in at most 8 minutes and without a network: PYTHON has CuPy, and the packages of the extra `dev`.
gpu:
	timeout 30 $(PYTHON) -c "import cupy; print(cupy.cuda.runtime.getDeviceProperties(0)['name'].decode(), cupy.__version__)"
	timeout 220 $(PYTHON) -m pytest -m gpu -rs tests/devices
	timeout 230 $(PYTHON) -m benchmarks gpu

# More examples: make oracle EXAMPLES=500
oracle: .venv-oracle/oracle.stamp
	.venv-oracle/bin/python -m pytest oracle -n 2 $(if $(EXAMPLES),--examples $(EXAMPLES))

# ONNX's own tests of operators and networks, by aioflow and by ONNX Runtime: make onnx TESTS=test_resize
onnx: .venv-onnx/onnx.stamp
	.venv-onnx/bin/python -m conformance $(if $(TESTS),'$(TESTS)')

# The documentation site, in build/docs/site. `make test` checks without it what it is made of.
docs: .venv-docs/docs.stamp
	.venv-docs/bin/python -m docs.site.build

clean:
	rm -rf .venv .venv-bench .venv-dask .venv-docs .venv-onnx .venv-oracle .venv-peers .venv-ray .venv-serving .venvs build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/demo.stamp: pyproject.toml
	$(call environment,$(PYTHON),-e .)

.venv/test.stamp: pyproject.toml
	$(call environment,$(PYTHON),-e '.[dev]')

.venv-bench/bench.stamp: pyproject.toml benchmarks/requirements.txt
	$(call environment,$(PYTHON),-e '.[onednn]' -r benchmarks/requirements.txt)

# Servers of others, whose packages do not agree. Where pip cannot install one, its benchmark says so.
.venv-peers/%/bench.stamp:
	$(call environment,$(PYTHON),'numpy>=2.1' $* || true)

.venv-dask/test.stamp .venv-ray/test.stamp: .venv-%/test.stamp: pyproject.toml
	$(call environment,$(PYTHON),-e '.[dev]' -e '.[$*]')

.venv-serving/test.stamp: pyproject.toml engines/serving_requirements.txt
	$(call environment,$(PYTHON),-e '.[dev]' -r engines/serving_requirements.txt)

.venv-onnx/onnx.stamp: pyproject.toml conformance/requirements.txt
	$(call environment,$(PYTHON),-e '.[image]' -e '.[onednn]' -e '.[onnx]' -e '.[re2]' -r conformance/requirements.txt)

.venv-docs/docs.stamp: pyproject.toml docs/site/requirements.txt
	$(call environment,$(PYTHON),-e . -r docs/site/requirements.txt)

.venv-oracle/oracle.stamp: pyproject.toml oracle/requirements.txt
	$(call environment,$(PYTHON),-e '.[dev]' -r oracle/requirements.txt)

.PRECIOUS: .venvs/%/test.stamp
.venvs/%/test.stamp: pyproject.toml
	$(call environment,$(call interpreter,$*),-e '.[dev]')
