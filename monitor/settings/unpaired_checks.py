"""Checks whether the keys of an unpaired comparison fit together."""

from collections.abc import Iterator
from datetime import datetime
from math import isclose

from monitor.boundary.options.one_of import OneOf
from monitor.boundary.options.problems import Partial, Problem, problem_of, problems_within

_KEYS_OF_PAIRED_COMPARISONS = (
    "baseline",
    "candidate",
    "candidates",
    "pairs",
    "users",
    "noise_floor",
    "relevance",
)
_ONE_LOG_MESSAGE = (
    "does not go with unpaired, in which one log has the lists of both arms, and each user gets "
    "those of one arm: remove this key"
)
_SAME_TIMES_MESSAGE = (
    "does not go with unpaired, which sets the same times for both arms: remove this key"
)
_ALL_USERS_MESSAGE = (
    "does not go with assignments, because unpaired measures all users, and unpaired.segments "
    "names the segments: remove this key"
)


def check_unpaired(comparison: Partial, now: datetime) -> Iterator[Problem]:
    """Yield the problems of an unpaired comparison. The key paths start at the comparison."""
    for key in _KEYS_OF_PAIRED_COMPARISONS:
        if comparison.has(key):
            yield problem_of(key, _ONE_LOG_MESSAGE)
    if comparison.unpaired is not None:
        yield from problems_within(("unpaired",), _check_options(comparison.unpaired, now))


def _check_options(options: Partial, now: datetime) -> Iterator[Problem]:
    """Report the problems of the section ``unpaired``. The key paths start at the section."""
    if options.log is not None:
        yield from _check_rows("log", options.log, options.arm, allowed_period_key="within")
    if options.assignments is not None:
        yield from _check_rows("assignments", options.assignments, options.arm)
        for key in ("segments", "sample"):
            if getattr(options.assignments, key):
                yield Problem(("assignments", key), _ALL_USERS_MESSAGE)
    if options.baseline is not None and options.candidate is not None:
        yield from _check_split(options)
    if options.before is None:
        return
    if options.before > now:
        yield problem_of(
            "before", "is in the future, so a current list would be older: give an earlier time"
        )
    if options.since is not None and options.since < options.before:
        yield problem_of(
            "since",
            "must not be earlier than before, because pre-test lists are older than the test: "
            "give a later time",
        )
    if options.since is not None and options.since > now:
        yield problem_of(
            "since", "is in the future, so no user is in the test yet: give an earlier time"
        )


def _check_rows(
    key: str, source: OneOf, arm: str | None, allowed_period_key: str | None = None
) -> Iterator[Problem]:
    """Report a source without times, and wrong keys in ``served``, its section for logs.

    ``unpaired`` sets the period and the arm. So ``served`` may not have a key for the period,
    except ``allowed_period_key``, and may not name the column ``arm`` (from ``unpaired.arm``).
    """
    if source.kind not in ("file", "sql"):
        yield problem_of(key, "must be file or sql, because only they have times")
        return
    path = (key, source.kind, "served")
    served = source.kind_options.served
    if served is None:
        yield Problem(path, "is missing, and must be given with time (and a log with within)")
        return
    for name in ("within", "since", "until"):
        if name != allowed_period_key and getattr(served, name) is not None:
            yield Problem((*path, name), _SAME_TIMES_MESSAGE)
    if arm in served.arm:
        yield Problem((*path, "arm"), "names the column that unpaired.arm names: remove it")


def _check_split(options: Partial) -> Iterator[Problem]:
    """Report arms that are equal, and a ``split`` that is not one share for each arm."""
    arms = (options.baseline, options.candidate)
    if options.baseline == options.candidate:
        yield problem_of("candidate", "is the baseline's value too: give another value")
        return
    if options.split is None:
        return
    if options.split.keys() != set(arms):
        yield problem_of(
            "split", f"must have a share of each arm, {' and '.join(arms)}, and no other"
        )
        return
    total = sum(options.split.values())
    if not isclose(total, 1, abs_tol=1e-6):
        yield problem_of("split", f"has shares whose sum is {total:g}: make them sum to 1")
