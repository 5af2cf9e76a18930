"""rankwatch: watches how far two recommenders drift apart.

`compare` and `compare_many` are loaded when first used, so that the command line starts without pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monitor.comparing import compare, compare_many

__all__ = ["__version__", "compare", "compare_many"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in {"compare", "compare_many"}:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from monitor import comparing  # noqa: PLC0415 - see the module's docstring

    return getattr(comparing, name)
