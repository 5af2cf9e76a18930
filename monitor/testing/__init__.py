"""Tests for authors of plugins: the contracts of sources, metrics and receivers.

If you write a plugin, derive a class ``Test...`` from the contract of its kind. Then pytest runs
the tests of the contract with your plugin.
"""

import pytest

pytest.register_assert_rewrite("monitor.testing.contracts")

from monitor.testing.contracts import MetricContract, ReceiverContract, SourceContract  # noqa: E402 - asserts explain themselves

__all__ = ["MetricContract", "ReceiverContract", "SourceContract"]
