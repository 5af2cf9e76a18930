"""A running web server over pages that a test can change, and stored runs that tests read and do not change."""

import resource
import shutil
from contextlib import ExitStack

import pytest

import published
from monitor.web.connections import Limits
from storage.worked import store_over
from web.sites import running
from web.stored_pages import EVIL, fill


class Health:
    """Health as a test sets it."""

    sick: str | None = None
    lacking: str | None = None

    def unhealthy(self):
        return self.sick

    def unready(self):
        return self.lacking


@pytest.fixture
def health():
    return Health()


@pytest.fixture
def many():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def limits():
    return Limits()


@pytest.fixture
def client(health, limits):
    with running(
        published.pages(metrics=published.filled().render, health=health), limits=limits
    ) as site:
        yield site


@pytest.fixture(scope="session")
def stores(sqlite_template, tmp_path_factory):
    """Stores to read, each of one comparison whose name is the key.

    In the hostile one every name is.
    """
    folder, opened = tmp_path_factory.mktemp("stores"), {}
    with ExitStack() as stack:
        for number, name in enumerate(("home-feed", EVIL)):
            file = shutil.copy(sqlite_template, folder / f"{number}.db")
            opened[name] = stack.enter_context(store_over(file))
        fill(opened["home-feed"])
        fill(opened[EVIL], EVIL, EVIL)
        yield opened


@pytest.fixture(scope="session")
def filled(stores):
    """The four runs of `fill`, to read."""
    return stores["home-feed"]
