"""rankwatch: how far two recommenders drift apart.

What compares is loaded when first used: the command line starts early.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monitor.measures.frames import compare, compare_many, plot_pair, plot_scores, summarize
    from monitor.measures.metrics import (
        METRICS,
        expected_by_chance,
        parse,
        rbo_persistence,
        rbo_weight,
    )

__all__ = [
    "METRICS",
    "__version__",
    "compare",
    "compare_many",
    "expected_by_chance",
    "parse",
    "plot_pair",
    "plot_scores",
    "rbo_persistence",
    "rbo_weight",
    "summarize",
]

__version__ = "0.1.0"
USER_AGENT = f"rankwatch/{__version__}"  # of every request over HTTP

_FRAMES = ("compare", "compare_many", "plot_pair", "plot_scores", "summarize")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "monitor.measures.frames" if name in _FRAMES else "monitor.measures.metrics"
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
