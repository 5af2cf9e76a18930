"""The shortest configuration that loads, and the type of what loads a text."""

from collections.abc import Callable

from monitor.model import Rule, RuleKind
from monitor.settings import ComparisonOptions, Settings, to_comparison

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
    return tuple(rule for rule in to_comparison(options).rules if rule.kind is not RuleKind.CONDITION)
