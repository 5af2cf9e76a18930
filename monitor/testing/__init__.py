"""The contracts of the plugin port as tests for pytest: derive a class ``Test...`` of yours from each that concerns you."""

import pytest

pytest.register_assert_rewrite("monitor.testing.contracts")

from monitor.testing.contracts import MetricContract, ReceiverContract, SourceContract  # noqa: E402 - asserts explain themselves

__all__ = ["MetricContract", "ReceiverContract", "SourceContract"]
