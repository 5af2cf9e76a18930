"""Plugins: what installed packages bring by entry points, looked for where a name is not built in: see `monitor.plugin_v1`."""

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import ConfigError, MetricError, MonitorError

T = TypeVar("T")
OPENING_S = 10.0
"""How long a plugin may take to be opened, which is no I/O."""
_LONGEST = 300
_MOST = (
    2 * (os.cpu_count() or 1) + 2
)  # calls of one plugin at once: metrics are called by each processor


class PluginError(MetricError, ConfigError, ValueError):
    """A plugin cannot be used: which, why, and what to do.

    Whoever reads a setting or a metric's name expects one of these.
    """


class Registry(dict[str, T]):
    """What is built in, by name.

    Another name is looked for among the entry points of installed packages.

    ``read`` makes of what an entry point holds, its name and how errors call it what stands here;
    PluginError where it cannot."""

    def __init__(
        self, family: str, built_in: Mapping[str, T], read: Callable[[Any, str, str], T]
    ) -> None:
        super().__init__(built_in)
        self._group, self._read = f"rankwatch.{family}", read
        self._found: dict[str, T | PluginError] = {}

    def __missing__(self, name: str) -> T:
        return self.installed(name)[name]

    def installed(self, name: str | None = None) -> dict[str, T]:
        """What a package brings of that name, empty where none does, or all usable.

        PluginError if a named one is not.
        """
        offered = _entry_points(self._group)
        for each in sorted(offered.names) if name is None else {name} & offered.names:
            if each not in self._found:
                self._found[each] = self._load(each, tuple(offered.select(name=each)))
        if isinstance(problem := self._found.get(name or ""), PluginError):
            raise problem
        usable = (
            (each, found)
            for each, found in self._found.items()
            if not isinstance(found, PluginError)
        )
        return {each: found for each, found in usable if name in (None, each)}

    def problems(self) -> Iterator[str]:
        """What is wrong with what cannot be used."""
        self.installed()
        return (str(found) for found in self._found.values() if isinstance(found, PluginError))

    def _load(self, name: str, entries: tuple[Any, ...]) -> T | PluginError:
        told = (
            f"{each.dist.name} {each.dist.version} ({name} = {each.value} in {self._group})"
            for each in entries
        )
        who = f"plugin of package {' and of '.join(told)}"
        if name in self or len(entries) > 1:
            taken = "by what is built in, which counts" if name in self else "twice"
            return PluginError(
                (
                    f"{who}: the name is taken {taken}: uninstall a package, or ask its author for "
                    "another name"
                )
            )
        try:
            return self._read(entries[0].load(), name, who)
        except PluginError as error:
            return PluginError(f"{who}: {error}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a stranger's module does when it is imported
            return PluginError(f"{who}: {_why_not_imported(error)}")


@cache
def _entry_points(group: str) -> Any:  # noqa: ANN401 - of a module that takes a while to import
    # Once a process: it takes as long as reading a configuration.
    return import_module("importlib.metadata").entry_points(group=group)


def _why_not_imported(error: BaseException) -> str:
    if isinstance(error, ImportError) and (
        wanted := re.search(r"\bplugin_v(?!1\b)(\d+)", str(error))
    ):
        return (
            f"was written for version {wanted[1]} of the port, and this rankwatch has version "
            "1: install versions that fit"
        )
    lacking = (
        f"{type(error).__name__} {error.name or ''}".rstrip()
        if isinstance(error, ImportError)
        else _place_of(error)
    )
    return f"cannot be imported ({lacking}): install what it lacks, or uninstall it"


def _place_of(error: BaseException) -> str:
    place = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in line {place.lineno} of {Path(place.filename).name}"


def _one_line(text: str) -> str:
    return " ".join(text[: 10 * _LONGEST].split())[:_LONGEST]


class Guard:
    """Calls one plugin.

    What it raises of this kind is cut to one line; anything else becomes one, with these fields.

    Of anything else no text is shown, which may hold secrets. What hangs costs a few threads, and
    no more."""

    def __init__(self, who: str, kind: type[MonitorError], **fields: Any) -> None:  # noqa: ANN401 - of its errors
        self._who, self._kind, self._fields = who, kind, fields
        self._free = threading.Semaphore(_MOST)

    def run(self, work: Callable[[], T]) -> T:
        """Do it in this thread, for which somebody else waits."""
        if not self._free.acquire(blocking=False):
            raise self._kind(f"{self._who} has not come back from earlier calls", **self._fields)
        try:
            return work()
        except self._kind as error:
            error.args = (_one_line(str(error)),)
            raise
        except BaseException as error:  # sys.exit and the like are no end of ours
            # Ctrl-C is raised in the main thread alone: elsewhere the plugin raised it.
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and isinstance(error, KeyboardInterrupt):
                raise
            raise self._kind(
                f"{self._who} failed with {_place_of(error)}", **self._fields
            ) from None
        finally:
            self._free.release()

    def call(self, work: Callable[[], T], timeout_s: float) -> T:
        """Do it in a thread of its own, and wait for so long."""
        try:
            return BackgroundCall(partial(self.run, work), name="plugin").wait(
                Deadline.after(timeout_s)
            )
        except OverdueError:
            raise self._kind(
                f"{self._who} did not come back within {timeout_s:g} s", **self._fields
            ) from None
