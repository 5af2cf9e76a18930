"""Matchers in Alertmanager's notation: they select the alerts of a route, a silence or a maintenance window."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from monitor.errors import ConfigError
from monitor.model import Transition

NAMES = ("alert", "comparison", "segment", "severity", "metric", "statistic")
"""What every alert can be matched by, beside the labels of its rule."""

_MATCHER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_MOST_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Matcher:
    """``name=value``, ``name!=value``, ``name=~regex`` or ``name!~regex``, the regular expression over the whole value.

    A label that an alert does not have counts as empty. Regular expressions are RE2's, as Alertmanager's are: without
    backreferences and looking around, and in time linear in the value whatever the expression.
    """

    name: str
    sign: str
    value: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a matcher; ConfigError when it is none. A value may stand in double quotes, a backslash before inner ones."""
        found = None if len(text) > _MOST_CHARACTERS else _MATCHER.fullmatch(text)
        if found is None:
            msg = f'{text[:80]!r} is no matcher: write name=value, name!=value, name=~"regex" or name!~"regex"'
            raise ConfigError(msg)
        name, sign, value = found.groups()
        if quoted := _QUOTED.fullmatch(value):
            value = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL) if "~" not in sign else quoted[1].replace('\\"', '"')
        if "~" in sign and (trouble := _trouble_of(value)):
            msg = f"{text[:80]!r}: {value[:60]!r} is no regular expression (RE2): {trouble}"
            raise ConfigError(msg)
        return cls(name=name, sign=sign, value=value, text=text)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an alert of these labels is meant."""
        value = labels.get(self.name, "")
        is_like_it = _fits(self.value, value) if "~" in self.sign else value == self.value
        return is_like_it is not self.sign.startswith("!")

    def __str__(self) -> str:
        return self.text.strip()


@lru_cache(maxsize=1000)
def _trouble_of(pattern: str) -> str | None:
    try:
        _search(pattern, "")  # by itself: within what it is wrapped in, `a)(b` would be one
        _search(_whole(pattern), "")
    except ValueError as error:
        return str(error).removeprefix("Invalid regular expression: ")[:200]
    return None


@lru_cache(maxsize=10_000)
def _fits(pattern: str, value: str) -> bool:
    return _search(_whole(pattern), value)


def _whole(pattern: str) -> str:
    return rf"(?s)\A(?:{pattern})\z"


def _search(pattern: str, text: str) -> bool:
    from pyarrow import array, compute  # noqa: PLC0415 - takes a while, and only regular expressions need it

    # Arrow takes valid UTF-8 only, and names from outside may hold lone surrogates.
    storable = text.encode("utf-8", "replace").decode()
    return bool(compute.match_substring_regex(array([storable]), pattern=pattern)[0].as_py())


def matchable_labels(transition: Transition) -> dict[str, str]:
    """What an alert can be matched by: the labels of its rule, and `NAMES`, which no label overrides."""
    return {**transition.labels, **{name: str(getattr(transition, name)) for name in NAMES}}


def matches_all(matchers: Iterable[Matcher], transition: Transition) -> bool:
    """Whether all of the matchers match the alert."""
    labels = matchable_labels(transition)
    return all(matcher.matches(labels) for matcher in matchers)
