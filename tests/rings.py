"""The two rings of tests.

The first ring needs Python and make only: ``make test``. The second ring holds the tests with the
marker ``integration`` or ``slow``. They need servers, a browser, Spark, an environment of their
own, they kill processes, or they take long: ``make test-all`` runs both rings."""

import pytest

SERVER_FIXTURES = {"postgres_server", "postgres_url"}
"""A test that uses one of these fixtures belongs to the second ring."""
SERVER_CASES = {"postgresql", "mariadb"}
"""A test case with one of these words in its id belongs to the second ring."""

_DESELECTED = pytest.StashKey[int]()
_running = []


def pytest_itemcollected(item):
    """Mark what needs a server by its fixtures or parameters, and what takes long."""
    fixtures = set(getattr(item, "fixturenames", ()))
    callspec = getattr(item, "callspec", None)
    words = set(callspec.id.split("-")) if callspec else set()
    if item.get_closest_marker("slow") or fixtures & SERVER_FIXTURES or words & SERVER_CASES:
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
    return is_first_ring() or any(item.get_closest_marker("slow") for item in _running)


def pytest_deselected(items):
    """Count the tests of the second ring that this run leaves out."""
    if items:
        left_out = sum(item.get_closest_marker("integration") is not None for item in items)
        config = items[0].config
        config.stash[_DESELECTED] = config.stash.get(_DESELECTED, 0) + left_out


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """A worker of xdist reports its count to the process that prints the summary."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["second_ring"] = session.config.stash.get(_DESELECTED, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):  # noqa: ARG001 - types of xdist
    """Every worker collects all tests, so each reports the same count."""
    node.config.stash[_DESELECTED] = getattr(node, "workeroutput", {}).get("second_ring", 0)


def pytest_terminal_summary(terminalreporter):
    """Name what did not run, so that nobody takes the first ring for everything."""
    left_out = terminalreporter.config.stash.get(_DESELECTED, 0)
    if left_out:
        terminalreporter.write_line(
            f"{left_out:,} tests of the second ring did not run. They need servers or take long: make test-all"
        )
