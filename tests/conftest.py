"""Fixtures that every test may use: the real servers."""

pytest_plugins = ["servers.postgres"]
