"""Fixtures that every test may use: the real servers."""

import os

import hypothesis

os.environ["RANKWATCH_ENGINE"] = "numpy"  # no test compiles in the background; those of the engines choose for themselves

pytest_plugins = ["servers.postgres"]

hypothesis.settings.register_profile("steady", deadline=None)  # timing decides no test
hypothesis.settings.load_profile("steady")
