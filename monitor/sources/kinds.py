"""What a kind of source can read, declared by the kind in one frozen value. The registry of kinds is in `monitor.sources`."""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monitor.options import Options


@dataclass(frozen=True, slots=True)
class Reader:
    """How a kind reads one thing: the options, the class that takes them, and the line about it in the reference.

    ``reads`` is written ``package.module:Class`` and imported when it is opened: reading a configuration loads no vendor.
    """

    options: type[Options]
    reads: str
    about: str

    def open(self, options: Options) -> Any:  # noqa: ANN401 - whatever port the class has
        """An instance of the class. No I/O; ConfigError when a driver is not installed."""
        return pkgutil.resolve_name(self.reads)(options)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """What one kind of source can read, None for what it cannot.

    ``is_live`` is whether another answer may come when a slot is asked for again, since the options do not name the slot.
    ``all_users`` makes options of ``users`` that list every user of these lists, for ``users: {all: true}``; ConfigError where
    they cannot.
    ``joined``, written as in `Reader`, opens all lists at once from their options by name (``baseline``, ``candidate``, and
    ``noise_floor`` where there are second ones), those of the users and the segment dimensions; it gives None for lists that it
    cannot join.
    ``is_pulled``: whether lists can be pulled too; else everything of a comparison is of this kind, and joined.
    """

    lists: Reader
    is_live: Callable[[Any], bool]
    all_users: Callable[[Any], Options] | None = None
    joined: str | None = None
    is_pulled: bool = True
    users: Reader | None = None
    item_weights: Reader | None = None
    item_titles: Reader | None = None
    relevance: Reader | None = None
