"""The shortest configuration that loads, and the type of what loads a text."""

from collections.abc import Callable
from typing import cast

from monitor.model.rules import Direction, LearnedLimit, Learning, Rule, RuleKind, SeriesRule
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings
from monitor.settings.translation import to_comparison

HTTP = '{http: {url: "http://%s.internal/{user}"}}'
MINIMAL = f"""comparisons:
  - name: feed
    every: 15m
    baseline: {HTTP % "a"}
    candidate: {HTTP % "b"}
    users: {{file: {{path: users.csv, user: id}}}}
"""

Load = Callable[..., Settings]


def rules_on_drift(options: ComparisonOptions) -> tuple[Rule, ...]:
    """The comparison's rules without those on conditions."""
    return tuple(rule for rule in to_comparison(options).judging.rules if rule.kind is not RuleKind.CONDITION)


def learning_of(rule: Rule) -> Learning | None:
    limit = getattr(rule, "limit", None)
    return limit.learning if isinstance(limit, LearnedLimit) else None


def limit_of(rule: Rule) -> tuple[Direction, float, float | Learning]:
    """Side and value of the rule's limit, and where it resolves, or how it is learned."""
    limit = cast("SeriesRule", rule).limit
    return limit.direction, limit.value, limit.learning if isinstance(limit, LearnedLimit) else limit.resolve_at
