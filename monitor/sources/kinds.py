"""Describes what a kind of source can read.

Each kind has one frozen description. The registry of kinds is in `monitor.sources`.
"""

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from monitor.boundary.options import Options
from monitor.boundary.options.one_of import OneOf
from monitor.boundary.plugins import OPENING_S, Guard, PluginError
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable
from monitor.model.ports import JoinedSource, LogSource


@dataclass(frozen=True, slots=True)
class Reader:
    """Describes how a kind of source reads one kind of data, such as lists or users."""

    options: type[Options]
    # `package.module:Class`. It is imported when it is opened, so that reading a configuration
    # imports no package of a vendor.
    reads: str
    about: str  # one line for the reference of settings
    plugin: str | None = None  # the name of the plugin in errors, None for a built-in kind

    def open(self, options: Options) -> Any:  # noqa: ANN401 - the port of the class
        """Make an instance of the class, without I/O.

        Raises ConfigError if a driver is not installed.
        """

        def create() -> Any:  # noqa: ANN401 - the port of the class
            return pkgutil.resolve_name(self.reads)(options)

        if self.plugin is None:
            return create()
        opened = Guard(self.plugin, ConfigError).call(create, OPENING_S)
        answers = pkgutil.resolve_name("monitor.sources.plugin_answers:PluginAnswers")
        return answers(opened, self.plugin, options)


def imported_when_called(name: str) -> Callable[..., Any]:
    """Return a function that calls `package.module:name`, as in ``Reader.reads``."""

    def call(*arguments: object) -> Any:  # noqa: ANN401 - the result of any function
        return pkgutil.resolve_name(name)(*arguments)

    return call


def _is_always_live(_: Any) -> bool:  # noqa: ANN401 - options of any kind
    return True


@immutable
class SourceKind:
    """Describes what one kind of source can read. A field is None for what it cannot read."""

    lists: Reader
    # Whether the answer for a slot can depend on the time of the request
    is_live: Callable[[Any], bool] = _is_always_live
    # Converts the options of these lists to options of ``users`` that read all users of the lists.
    # Raises ConfigError if this is not possible.
    all_users: Callable[[Any], Options] | None = None
    # Opens all lists as one source. It gets the options of the lists by name (``baseline``,
    # ``candidate``, perhaps ``noise_floor``), the options of the users, and the segment dimensions.
    # Returns None if it cannot join the lists.
    joined: Callable[[Mapping[str, Any], Any, Sequence[str]], JoinedSource | None] | None = None
    # Opens the log of an unpaired comparison. It gets the options of the pre-test lists, of the
    # current lists, and of the assigned users.
    log: Callable[[Any, Any, Any], LogSource] | None = None
    # Whether lists can be pulled. If not, all sources of a comparison must be of this kind.
    is_pulled: bool = True
    users: Reader | None = None
    item_weights: Reader | None = None
    item_titles: Reader | None = None
    relevance: Reader | None = None
    outcomes: Reader | None = None  # its options are those of ``all_users``


def read_source_kind(source: Any, name: str, who: str) -> SourceKind:  # noqa: ANN401 - of an entry point
    """The kind of source of an installed package, with a guard around each call.

    ``who`` is the name of the plugin in errors. Raises PluginError if the kind is not valid.
    """
    if (
        not isinstance(source, SourceKind)
        or source.joined
        or source.outcomes
        or source.log
        or not source.is_pulled
        or hasattr(OneOf, name)
    ):
        raise PluginError(
            "must be a SourceKind whose lists are pulled, and its name must not be an attribute "
            "of Options"
        )
    guard = Guard(who, ConfigError)

    def is_live(options: Options) -> bool:
        return guard.run(lambda: bool(source.is_live(options)))

    changes: dict[str, Any] = {"is_live": is_live}
    if source.all_users is not None:
        changes["all_users"] = lambda options: guard.run(partial(source.all_users, options))
    for field in fields(source):
        reader = getattr(source, field.name)
        if isinstance(reader, Reader):
            changes[field.name] = replace(reader, plugin=who)
    return replace(source, **changes)
