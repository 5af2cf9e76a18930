"""Plugins: entry points of installed packages. They are used for names that are not built in.

See `monitor.plugin_v1`.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar

from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.model.errors import ConfigError, MetricError, MonitorError

_T = TypeVar("_T")
OPENING_S = 10.0
"""How many seconds the opening of a plugin may take. It usually takes much less."""
_LONGEST_LINE_CHARS = 300
_MOST_CALLS_AT_ONCE = 2 * (os.cpu_count() or 1) + 2
"""How many calls of one plugin may run at the same time. Each processor needs one for metrics."""


class PluginError(MetricError, ConfigError, ValueError):
    """A plugin cannot be used. The text names the plugin, and says why and what to do.

    Code that reads settings or metric names expects one of the base classes.
    """


class Registry(dict[str, _T]):
    """The built-in values by name. Other names are looked up as entry points of packages.

    ``read`` gets the object of an entry point, its name, and its description for errors. It returns
    the value, or raises PluginError.
    """

    def __init__(
        self,
        family: str,
        built_in: Mapping[str, _T],
        read: Callable[[Any, str, str], _T],
    ) -> None:
        super().__init__(built_in)
        self._group = f"rankwatch.{family}"
        self._read = read
        self._plugins: dict[str, _T | PluginError] = {}

    def __missing__(self, name: str) -> _T:
        return self.installed(name)[name]

    def installed(self, name: str | None = None) -> dict[str, _T]:
        """Return the plugin of that name, or all usable plugins if ``name`` is None. May be empty.

        PluginError if the named plugin cannot be used.
        """
        entries = _entry_points(self._group)
        names = entries.names
        if name is not None:
            names = names & {name}
        usable: dict[str, _T] = {}
        for plugin_name in sorted(names):
            if plugin_name not in self._plugins:
                entries_of_name = tuple(entries.select(name=plugin_name))
                self._plugins[plugin_name] = self._load(plugin_name, entries_of_name)
            plugin = self._plugins[plugin_name]
            if not isinstance(plugin, PluginError):
                usable[plugin_name] = plugin
            elif name is not None:
                raise plugin
        return usable

    def problems(self) -> Iterator[str]:
        """Yield one text for each plugin that cannot be used."""
        self.installed()
        return (str(error) for error in self._plugins.values() if isinstance(error, PluginError))

    def _load(self, name: str, entries: tuple[Any, ...]) -> _T | PluginError:
        packages = (
            f"{entry.dist.name} {entry.dist.version} ({name} = {entry.value} in {self._group})"
            for entry in entries
        )
        who = f"plugin of package {' and of '.join(packages)}"
        if name in self or len(entries) > 1:
            taken = "by a built-in one, which is used" if name in self else "twice"
            return PluginError(
                f"{who}: the name is taken {taken}: uninstall a package, or ask its author for "
                "another name"
            )
        try:
            return self._read(entries[0].load(), name, who)
        except PluginError as error:
            return PluginError(f"{who}: {error}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            return PluginError(f"{who}: {_why_not_imported(error)}")


@cache
def _entry_points(group: str) -> Any:  # noqa: ANN401 - importing its type takes a while
    # This is cached, because it takes as long as reading a configuration.
    return import_module("importlib.metadata").entry_points(group=group)


def _why_not_imported(error: BaseException) -> str:
    cause = _place_of(error)
    if isinstance(error, ImportError):
        port = re.search(r"\bplugin_v(?!1\b)(\d+)", str(error))
        if port:
            return (
                f"was written for version {port[1]} of the port, and this rankwatch has version "
                "1: install versions that fit"
            )
        cause = f"{type(error).__name__} {error.name or ''}".rstrip()
    return f"cannot be imported ({cause}): install the packages that it needs, or uninstall it"


def _place_of(error: BaseException) -> str:
    place = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in line {place.lineno} of {Path(place.filename).name}"


def _one_line(text: str) -> str:
    return " ".join(text[: 10 * _LONGEST_LINE_CHARS].split())[:_LONGEST_LINE_CHARS]


class Guard:
    """Calls one plugin.

    The text of an error of class ``kind`` is cut to one line. Any other error becomes an error of
    class ``kind`` with these ``fields``. The original text is dropped, because it may contain
    secrets. The number of calls at the same time is limited, because calls that hang never free
    their threads.
    """

    def __init__(
        self,
        who: str,
        kind: type[MonitorError],
        **fields: Any,  # noqa: ANN401 - arguments of the error's class
    ) -> None:
        self._who = who
        self._kind = kind
        self._fields = fields
        self._free = threading.Semaphore(_MOST_CALLS_AT_ONCE)

    def run(self, work: Callable[[], _T]) -> _T:
        """Call ``work`` in this thread. The caller must limit the time."""
        if not self._free.acquire(blocking=False):
            raise self._kind(f"{self._who} has not returned from earlier calls", **self._fields)
        try:
            return work()
        except self._kind as error:
            error.args = (_one_line(str(error)),)
            raise
        except BaseException as error:  # a plugin's sys.exit must not end rankwatch
            # Ctrl-C raises in the main thread only. In another thread the plugin raised the error.
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and isinstance(error, KeyboardInterrupt):
                raise
            failure = f"{self._who} failed with {_place_of(error)}"
            raise self._kind(failure, **self._fields) from None
        finally:
            self._free.release()

    def call(self, work: Callable[[], _T], timeout_s: float) -> _T:
        """Call ``work`` in a new thread, and wait at most ``timeout_s`` seconds."""
        call = BackgroundCall(partial(self.run, work), name="plugin")
        try:
            return call.wait(Deadline.after(timeout_s))
        except OverdueError:
            overdue = f"{self._who} did not return within {timeout_s:g} s"
            raise self._kind(overdue, **self._fields) from None
