"""Matchers as Alertmanager writes them: which alerts a route, a silence or a maintenance window is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from monitor.errors import ConfigError
from monitor.model import Transition

NAMES = ("alert", "comparison", "segment", "severity", "metric", "statistic")
"""What every alert can be matched by, beside the labels of its rule."""

_MATCHER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Matcher:
    """``name=value``, ``name!=value``, ``name=~regex`` or ``name!~regex``, the regular expression over the whole value.

    A label that an alert does not have counts as empty.
    """

    name: str
    pattern: re.Pattern[str]
    is_negative: bool
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a matcher; ConfigError when it is none. A value may stand in double quotes, a backslash before inner ones."""
        found = _MATCHER.fullmatch(text)
        if found is None or len(text) > _LONGEST:
            msg = f'{text[:80]!r} is no matcher: write name=value, name!=value, name=~"regex" or name!~"regex"'
            raise ConfigError(msg)
        name, sign, value = found.groups()
        if quoted := _QUOTED.fullmatch(value):
            value = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL) if "~" not in sign else quoted[1].replace('\\"', '"')
        try:
            pattern = re.compile(value if "~" in sign else re.escape(value), re.DOTALL)
        except (re.error, RecursionError, OverflowError) as error:
            msg = f"{text[:80]!r}: {value[:60]!r} is no regular expression: {error}"
            raise ConfigError(msg) from None
        return cls(name=name, pattern=pattern, is_negative=sign.startswith("!"), text=text)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an alert of these labels is meant."""
        return (self.pattern.fullmatch(labels.get(self.name, "")) is not None) is not self.is_negative

    def __str__(self) -> str:
        return self.text.strip()


def labels_of(transition: Transition) -> dict[str, str]:
    """What an alert can be matched by: the labels of its rule, and `NAMES`, which no label overrides."""
    ours = {
        "alert": transition.alert,
        "comparison": transition.comparison,
        "segment": transition.segment,
        "severity": transition.severity.value,
        "metric": transition.metric,
        "statistic": transition.statistic,
    }
    return {**transition.labels, **ours}


def is_meant(matchers: Iterable[Matcher], transition: Transition) -> bool:
    """Whether all of the matchers match the alert."""
    labels = labels_of(transition)
    return all(matcher.matches(labels) for matcher in matchers)
