import re

import pytest

from servers.certificates import authority, client_pair, server_pair  # noqa: F401 - fixtures
from servers.recommender import recommender  # noqa: F401 - a fixture


def pytest_itemcollected(item):
    """Move the cases of Redis, which is a server, to the second ring."""
    callspec = getattr(item, "callspec", None)
    if callspec and re.search(r"\bredis\b", callspec.id):
        item.add_marker(pytest.mark.integration)
