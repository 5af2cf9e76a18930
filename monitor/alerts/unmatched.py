"""Rules, routes and silences that can match nothing, each with the nearest name that exists."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from monitor.alerts.notification_policy import Matcher
from monitor.model.rankings import ALL
from monitor.model.rules import Rule, RuleKind
from monitor.model.segments import find_nearest
from monitor.model.unmatched_names import UnmatchedName

Labels = Mapping[str, str]


def named_segments(rules: Iterable[Rule]) -> tuple[str, ...]:
    """The segments that rules on drift name, each once, in their order; not ``all``."""
    names = [name for rule in rules if rule.kind is not RuleKind.CONDITION for name in _names_of(rule)]
    return tuple(dict.fromkeys(names))


def _names_of(rule: Rule) -> tuple[str, ...]:
    if isinstance(rule.segments, str):
        return ()
    return tuple(name for name in rule.segments if name != ALL)


def find_unmatched_segments(rules: Iterable[Rule], present: Collection[str]) -> tuple[UnmatchedName, ...]:
    """Segments that rules on drift name and that are not ``present``; rules that name the same one together."""
    owners: dict[str, list[str]] = {}
    for rule in rules:
        for name in _names_of(rule) if rule.kind is not RuleKind.CONDITION else ():
            if name not in present:
                owners.setdefault(name, []).append(rule.alert)
    return tuple(
        _unmatched(f"rule{'s' if len(alerts) > 1 else ''} {', '.join(alerts)}", "segment", name, present)
        for name, alerts in owners.items()
    )


def find_unmatched_matchers(owner: str, matchers: Sequence[Matcher], alerts: Sequence[Labels]) -> UnmatchedName | None:
    """The matcher for which none of these possible alerts, given by labels, is matched by all; None where one is."""
    left = list(alerts)
    for matcher in matchers:
        kept = [labels for labels in left if matcher.matches(labels)]
        if not kept:
            values = dict.fromkeys(labels[matcher.name] for labels in left if matcher.name in labels)
            return _unmatched(owner, matcher.name, matcher.value, values.keys())
        left = kept
    return None


def _unmatched(owner: str, label: str, name: str, present: Collection[str]) -> UnmatchedName:
    dimension = f"{name.rpartition('=')[0]}="
    kin = [each for each in present if each.startswith(dimension)] if "=" in name else list(present)
    return UnmatchedName(owner=owner, label=label, name=name, nearest=find_nearest(name, present), known=tuple(kin))
