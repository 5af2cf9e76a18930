"""Fixtures that every test may use: the real servers."""

import os

os.environ["RANKWATCH_ENGINE"] = "numpy"  # no test compiles in the background; those of the engines choose for themselves

pytest_plugins = ["servers.postgres"]
