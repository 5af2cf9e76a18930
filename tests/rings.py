"""The two rings of tests.

The first ring needs Python and make only: ``make test``. The second ring holds the tests with the
marker ``integration`` or ``shared_databases``. They need servers, a browser, Spark, an environment
of their own, or they kill processes: ``make test-all`` runs both rings."""

import re

import pytest

SERVER_FIXTURES = {"postgres_server", "postgres_url"}
"""A test that uses one of these fixtures belongs to the second ring."""
SERVER_CASES = {"postgresql", "mariadb"}
"""A test case with one of these words in its id belongs to the second ring."""

_SECOND_RING = re.compile(r"^pytestmark = .*\bintegration\b", re.MULTILINE)
_running = []


def pytest_itemcollected(item):
    """Mark what needs a server by its fixtures or parameters, and what shares databases."""
    fixtures = set(getattr(item, "fixturenames", ()))
    callspec = getattr(item, "callspec", None)
    words = set(callspec.id.split("-")) if callspec else set()
    shares = item.get_closest_marker("shared_databases")
    if shares or fixtures & SERVER_FIXTURES or words & SERVER_CASES:
        item.add_marker(pytest.mark.integration)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Remember which test runs, so that `servers.require` can refuse a server to the first ring."""
    _running[:] = [item]
    try:
        return (yield)
    finally:
        _running.clear()


def is_first_ring():
    """True while a test of the first ring runs."""
    return any(item.get_closest_marker("integration") is None for item in _running)


def shares_databases():
    """True while a test runs that may use a database of DuckDB again: see `databases`."""
    return is_first_ring() or any(item.get_closest_marker("shared_databases") for item in _running)


def _runs_first_ring(config):
    return config.option.markexpr == "not integration"


def pytest_ignore_collect(collection_path, config):
    """The first ring does not import files whose tests all belong to the second ring."""
    is_module = collection_path.suffix == ".py" and _runs_first_ring(config)
    if is_module and _SECOND_RING.search(collection_path.read_text(encoding="utf-8")):
        return True
    return None


def pytest_terminal_summary(terminalreporter):
    """Say what did not run, so that nobody takes the first ring for everything."""
    if _runs_first_ring(terminalreporter.config):
        terminalreporter.write_line(
            "The tests of the second ring did not run. They need servers: make test-all"
        )
