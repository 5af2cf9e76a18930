"""Tests for authors of plugins: the contracts of sources, metrics and receivers.

For each kind of plugin that you write, derive a class ``Test...`` from its contract. pytest then
runs the tests.
"""

import pytest

pytest.register_assert_rewrite("monitor.testing.contracts")

from monitor.testing.contracts import MetricContract, ReceiverContract, SourceContract  # noqa: E402 - asserts explain themselves

__all__ = ["MetricContract", "ReceiverContract", "SourceContract"]
