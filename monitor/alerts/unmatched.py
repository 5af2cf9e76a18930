"""Rules, routes and silences that can match nothing, each with the nearest name that exists."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from monitor.alerts.notification_policy import NAMES, Matcher
from monitor.errors import ConfigError
from monitor.model.alerts import AlertState
from monitor.model.comparison import Comparison
from monitor.model.notifications import Silence
from monitor.model.rankings import ALL
from monitor.model.rules import Rule, RuleKind
from monitor.model.segments import find_nearest
from monitor.model.unmatched_names import UnmatchedName

Labels = Mapping[str, str]


def named_segments(rules: Iterable[Rule]) -> tuple[str, ...]:
    """The segments that rules on drift name, each once, in their order; not ``all``."""
    names = [
        name for rule in rules if rule.kind is not RuleKind.CONDITION for name in _names_of(rule)
    ]
    return tuple(dict.fromkeys(names))


def _names_of(rule: Rule) -> tuple[str, ...]:
    if isinstance(rule.segments, str):
        return ()
    return tuple(name for name in rule.segments if name != ALL)


def find_unmatched_segments(
    rules: Iterable[Rule], present: Collection[str]
) -> tuple[UnmatchedName, ...]:
    """Segments that rules on drift name and that are not ``present``.

    Rules that name the same one together.
    """
    owners: dict[str, list[str]] = {}
    for rule in rules:
        for name in _names_of(rule) if rule.kind is not RuleKind.CONDITION else ():
            if name not in present:
                owners.setdefault(name, []).append(rule.alert)
    return tuple(
        _with_known(
            UnmatchedName(owner=f"rule{'s' * (len(alerts) > 1)} {', '.join(alerts)}", name=name),
            name,
            present,
        )
        for name, alerts in owners.items()
    )


def find_unmatched_matchers(
    owner: str, matchers: Sequence[Matcher], alerts: Sequence[Labels]
) -> UnmatchedName | None:
    """The matcher for which none of these possible alerts, given by labels, is matched by all.

    None where one is.
    """
    left = list(alerts)
    for matcher in matchers:
        kept = [labels for labels in left if matcher.matches(labels)]
        if not kept:
            lack = UnmatchedName(owner=owner, name=str(matcher), is_matcher=True)
            if matcher.sign != "=":
                return lack
            values = dict.fromkeys(
                labels[matcher.name] for labels in left if matcher.name in labels
            )
            return _with_known(lack, matcher.value, values.keys())
        left = kept
    return None


def find_unmatched(comparison: Comparison, present: Collection[str]) -> tuple[UnmatchedName, ...]:
    """What rules, routes and maintenance windows of the comparison name and none of the segments ``present`` has."""
    # A segment that a rule names in vain is told of the rule alone.
    alerts = list(
        possible_alerts(comparison, {*present, *named_segments(comparison.judging.rules)})
    )
    selectors = comparison.judging.selectors.items()
    found = (
        find_unmatched_matchers(owner, list(map(Matcher.parse, texts)), alerts)
        for owner, texts in selectors
    )
    return (*find_unmatched_segments(comparison.judging.rules, present), *filter(None, found))


def possible_alerts(comparison: Comparison, present: Collection[str]) -> Iterator[Labels]:
    """What alerts of the comparison can be matched by, in each segment that is present."""
    for rule in comparison.judging.rules:
        metric, statistic = rule.subject
        names = (
            (ALL,)
            if rule.segments == "all"
            else present
            if isinstance(rule.segments, str)
            else rule.segments
        )
        for segment in names:
            if segment in present:
                own = (
                    rule.alert,
                    comparison.name,
                    segment,
                    str(rule.severity),
                    metric,
                    str(statistic),
                )
                yield {**rule.labels, **dict(zip(NAMES, own, strict=True))}


def find_unmatched_silences(
    silences: Iterable[Silence], states: Collection[AlertState], comparisons: Iterable[str]
) -> tuple[UnmatchedName, ...]:
    """What silences name in vain, by the alerts that were judged so far.

    Nothing while a comparison was never judged.
    """
    if not set(comparisons) <= {state.comparison for state in states}:
        return ()
    names = ("alert", "comparison", "segment", "severity")
    alerts = [{name: str(getattr(state, name)) for name in names} for state in states]
    found = []
    for silence in silences:
        with suppress(ConfigError):  # a matcher of another version, which holds nothing back
            matchers = [
                matcher for matcher in map(Matcher.parse, silence.matchers) if matcher.name in names
            ]
            found.append(find_unmatched_matchers(f"silence {silence.id}", matchers, alerts))
    return tuple(filter(None, found))


def share_selectors(
    selectors: Mapping[str, Sequence[Matcher]], comparisons: Sequence[Comparison]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """The selectors by comparison whose alerts they may match in some segment, where no other comparison's may.

    One that matches no rule of any comparison belongs to all of them.
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {each.name: {} for each in comparisons}
    known = {
        each.name: list(possible_alerts(each, {ALL, *named_segments(each.judging.rules)}))
        for each in comparisons
    }
    for owner, matchers in selectors.items():
        elsewhere = [matcher for matcher in matchers if matcher.name != "segment"]
        able = [
            name
            for name, alerts in known.items()
            if find_unmatched_matchers(owner, elsewhere, alerts) is None
        ]
        if len(able) <= 1:
            for name in able or found:
                found[name][owner] = tuple(map(str, matchers))
    return found


def _with_known(lack: UnmatchedName, name: str, present: Collection[str]) -> UnmatchedName:
    """The same with the names that exist: of a segment those of its dimension."""
    dimension = f"{name.rpartition('=')[0]}="
    kin = [each for each in present if each.startswith(dimension)] if "=" in name else list(present)
    return replace(lack, nearest=find_nearest(name, present), known=tuple(kin))
