"""Checks whether the keys of an unpaired comparison fit together."""

from collections.abc import Iterator
from datetime import datetime
from math import isclose

from monitor.boundary.options.problems import Partial, Problem, within
from monitor.sources import SourceOptions, UsersOptions

_ONE_LOG = (
    "does not go with unpaired, which reads the lists and users of both arms from one log at the "
    "same time: remove this key"
)
_ONE_LIST = (
    "does not go with unpaired, because each user gets the lists of one arm only: remove this key"
)
_EXCLUDED = {
    **dict.fromkeys(("baseline", "candidate", "candidates", "users"), _ONE_LOG),
    **dict.fromkeys(("pairs", "noise_floor", "relevance"), _ONE_LIST),
}
_KINDS = ("file", "sql")


def check_unpaired(comparison: Partial, now: datetime) -> Iterator[Problem]:
    """Yield the problems of an unpaired comparison. The key paths start at the comparison."""
    for key, message in _EXCLUDED.items():
        if comparison.has(key):
            yield Problem((key,), message)
    if comparison.unpaired is not None:
        yield from within(("unpaired",), _options(comparison.unpaired, now))


def _options(options: Partial, now: datetime) -> Iterator[Problem]:
    if options.log is not None:
        yield from _log(options.log, options.arm)
    if options.assignments is not None:
        yield from _assignments(options.assignments)
    if options.baseline is not None and options.candidate is not None:
        yield from _split(options)
    if options.before is None:
        return
    if options.before > now:
        yield Problem(
            ("before",), "is in the future, so a list of now would be older: give an earlier time"
        )
    if options.since is not None and options.since < options.before:
        yield Problem(
            ("since",),
            "must not be earlier than before, because lists of before are older than the test: "
            "give a later time",
        )


def _log(log: SourceOptions, arm: str | None) -> Iterator[Problem]:
    """Report a log that is no file or table, or that does not select rows by time."""
    if log.kind not in _KINDS:
        yield Problem(("log",), f"must be file or sql, because {log.kind} has no log of all lists")
        return
    served = log.given.served
    path = ("log", log.kind, "served")
    if served is None:
        yield Problem(path, "is missing, and must be given: {time: ..., within: ...}")
        return
    for key in ("since", "until"):
        if getattr(served, key) is not None:
            yield Problem(
                (*path, key),
                "does not go with unpaired, which reads both arms at the same time: give within",
            )
    if arm in served.arm:
        yield Problem((*path, "arm"), "names the column that unpaired.arm names: remove it")


def _assignments(users: UsersOptions) -> Iterator[Problem]:
    """Report assignments that are no file or table, or that have keys of other users."""
    if users.kind not in _KINDS:
        yield Problem(("assignments",), "must be file or sql, because only they have times")
        return
    if users.segments:
        yield Problem(("assignments", "segments"), "is a key of unpaired: move it there")
    if users.sample is not None:
        yield Problem(
            ("assignments", "sample"),
            "is not possible, because an unpaired comparison measures all users: remove it",
        )
    served = users.given.served
    path = ("assignments", users.kind, "served")
    if served is None:
        yield Problem(path, "is missing, and must be given: {time: ...}")
        return
    for key in ("within", "since", "until"):
        if getattr(served, key) is not None:
            yield Problem(
                (*path, key),
                "does not go with assignments, which count from unpaired.since on: remove this key",
            )


def _split(options: Partial) -> Iterator[Problem]:
    """Report arms that are equal, and planned shares that are not those of the two arms."""
    arms = (options.baseline, options.candidate)
    if options.baseline == options.candidate:
        yield Problem(("candidate",), "is the baseline's value too: give another value")
        return
    split = options.split
    if split is None:
        return
    for value in split:
        if value not in arms:
            yield Problem(("split", value), f"is no arm: the arms are {' and '.join(arms)}")
    total = sum(split.values())
    if len(split) < len(arms):
        yield Problem(("split",), f"must have a share of each arm, {' and '.join(arms)}")
    elif not isclose(total, 1, abs_tol=1e-6):
        yield Problem(("split",), f"has shares whose sum is {total:g}, and must be 1: change them")
