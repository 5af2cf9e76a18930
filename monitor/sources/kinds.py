"""What a kind of source can read, declared by the kind in one frozen value.

The registry of kinds is in `monitor.sources`.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from monitor.errors import ConfigError
from monitor.options import OneOf, Options
from monitor.plugins import OPENING_S, Guard, PluginError


@dataclass(frozen=True, slots=True)
class Reader:
    """How a kind reads one thing."""

    options: type[Options]
    # ``package.module:Class``, imported when it is opened: reading a configuration loads no vendor
    reads: str
    about: str  # its line in the reference
    plugin: str | None = None  # how errors call the plugin that it belongs to

    def open(self, options: Options) -> Any:  # noqa: ANN401 - whatever port the class has
        """An instance of the class. No I/O; ConfigError when a driver is not installed."""
        if self.plugin is None:
            return pkgutil.resolve_name(self.reads)(options)
        opened = Guard(self.plugin, ConfigError).call(
            lambda: pkgutil.resolve_name(self.reads)(options), OPENING_S
        )
        return pkgutil.resolve_name("monitor.sources.plugin_answers:PluginAnswers")(
            opened, self.plugin, options
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """What one kind of source can read, None for what it cannot.

    ``joined``, written as ``reads``, opens all lists at once from their options by name
    (``baseline``, ``candidate``, perhaps ``noise_floor``), those of the users and the segment
    dimensions; it gives None for lists that it cannot join."""

    lists: Reader
    is_live: Callable[[Any], bool] = lambda _: (
        True
    )  # whether another answer may come when a slot is asked for again
    all_users: Callable[[Any], Options] | None = (
        None  # options of ``users`` for every user of these lists, else ConfigError
    )
    joined: str | None = None
    # Whether lists can be pulled too; else all of a comparison is of this kind, and joined
    is_pulled: bool = True
    users: Reader | None = None
    item_weights: Reader | None = None
    item_titles: Reader | None = None
    relevance: Reader | None = None


def read_kind(found: Any, name: str, who: str) -> SourceKind:  # noqa: ANN401 - whatever an entry point holds
    """The kind of an installed package, kept from doing harm. PluginError for what is none."""
    if (
        not isinstance(found, SourceKind)
        or found.joined
        or not found.is_pulled
        or hasattr(OneOf, name)
    ):
        raise PluginError(
            "must be a SourceKind whose lists are pulled, and its name no attribute of Options"
        )
    readers = {
        each.name: reader
        for each in fields(found)
        if isinstance(reader := getattr(found, each.name), Reader)
    }
    guarded: Any = {role: replace(reader, plugin=who) for role, reader in readers.items()}
    guard, every = Guard(who, ConfigError), found.all_users
    return replace(
        found,
        is_live=lambda options: guard.run(lambda: bool(found.is_live(options))),
        all_users=every and (lambda options: guard.run(lambda: every(options))),
        **guarded,
    )
