"""Finds rules, routes and silences that cannot match anything. Proposes the nearest name."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from monitor.alerts.notification_policy import Matcher
from monitor.model.alerts import AlertNames, AlertState
from monitor.model.errors import ConfigError
from monitor.model.notifications import Silence
from monitor.model.rankings import ALL
from monitor.model.rules import Comparison, Rule, RuleKind
from monitor.model.run_reasons import UnmatchedName
from monitor.model.segments import find_nearest

AlertLabels = Mapping[str, str]


def named_segments(rules: Iterable[Rule]) -> tuple[str, ...]:
    """Return the segments that rules on drift name, in the order of the rules.

    Each segment occurs once. ``all`` is left out.
    """
    return tuple(_group_alerts(rules))


def _group_alerts(rules: Iterable[Rule]) -> dict[str, list[str]]:
    """Return the alerts of the rules on drift that name a segment, by segment."""
    alerts: dict[str, list[str]] = {}
    for rule in rules:
        if rule.kind is not RuleKind.CONDITION and not isinstance(rule.segments, str):
            for name in rule.segments:
                if name != ALL:
                    alerts.setdefault(name, []).append(rule.alert)
    return alerts


def find_unmatched_segments(
    rules: Iterable[Rule], present: Collection[str]
) -> tuple[UnmatchedName, ...]:
    """Find the segments that rules on drift name, but that are not ``present``.

    The result has one entry for each such segment.
    """
    unmatched = []
    for name, alerts in _group_alerts(rules).items():
        if name not in present:
            owner = f"rule{'s' if len(alerts) > 1 else ''} {', '.join(alerts)}"
            unmatched.append(with_known(UnmatchedName(owner=owner, name=name), name, present))
    return tuple(unmatched)


def find_unmatched_matchers(
    owner: str,
    matchers: Sequence[Matcher],
    alerts: Sequence[AlertLabels],
) -> UnmatchedName | None:
    """Find the first matcher that no alert matches. None if an alert matches all matchers.

    Each matcher is applied to the alerts that match all matchers before it. ``alerts`` are the
    labels of all possible alerts.
    """
    for matcher in matchers:
        matched = [labels for labels in alerts if matcher.matches(labels)]
        if not matched:
            unmatched = UnmatchedName(owner=owner, name=str(matcher), is_matcher=True)
            if matcher.sign != "=":
                return unmatched
            values = [labels[matcher.name] for labels in alerts if matcher.name in labels]
            return with_known(unmatched, matcher.value, dict.fromkeys(values))
        alerts = matched
    return None


def find_unmatched(comparison: Comparison, present: Collection[str]) -> tuple[UnmatchedName, ...]:
    """Find names in rules, routes and maintenance windows that match nothing.

    In rules these are segments that are not ``present``. In routes and windows these are matchers
    that match no possible alert.
    """
    rules = comparison.judging.rules
    # If a rule names an absent segment, the rule is reported. Routes with this segment are not.
    alerts = list(possible_alerts(comparison, {*present, *named_segments(rules)}))
    unmatched = list(find_unmatched_segments(rules, present))
    for owner, expressions in comparison.judging.selectors.items():
        matchers = list(map(Matcher.parse, expressions))
        unmatched_matcher = find_unmatched_matchers(owner, matchers, alerts)
        if unmatched_matcher is not None:
            unmatched.append(unmatched_matcher)
    return tuple(unmatched)


def possible_alerts(comparison: Comparison, present: Collection[str]) -> Iterator[AlertLabels]:
    """Yield the labels of each alert that the comparison can have in the ``present`` segments."""
    for rule in comparison.judging.rules:
        for segment in present:
            if rule.may_judge(segment):
                of_segment = {"comparison": comparison.name, "segment": segment}
                yield _labels_of_rule(rule) | of_segment


def _labels_of_rule(rule: Rule) -> dict[str, str]:
    names = {"alert": rule.alert, "severity": str(rule.severity)}
    return {**rule.labels, **names, **rule.subject._asdict()}


def find_unmatched_silences(
    silences: Iterable[Silence],
    judged_alerts: Collection[AlertNames | AlertState],
    comparisons: Mapping[str, Comparison],
) -> tuple[UnmatchedName, ...]:
    """For each silence that has matched no alert so far, find the matcher that excludes the alerts.

    This is the first matcher that matches none of the alerts that match all matchers before it (see
    `find_unmatched_matchers`). ``judged_alerts`` are the alerts that were judged so far.
    ``comparisons`` has the configured comparisons by name.

    A silence is left out if it may match an alert of a comparison that was never judged. Any
    segment of this comparison is possible.
    """
    judged_comparisons = {names.comparison for names in judged_alerts}
    alerts = _labels_of(judged_alerts, comparisons)
    unjudged_alerts: list[AlertLabels] = []
    for name, comparison in comparisons.items():
        if name not in judged_comparisons:
            unjudged_alerts += _alerts_in_any_segment(comparison)
    unmatched = []
    for silence in silences:
        try:
            matchers = [*map(Matcher.parse, silence.matchers)]
        except ConfigError:
            # Another version of rankwatch wrote this matcher. It cannot be read, so it silences
            # nothing.
            continue
        if not any(_may_match(matchers, labels) for labels in unjudged_alerts):
            unmatched_matcher = find_unmatched_matchers(f"silence {silence.id}", matchers, alerts)
            if unmatched_matcher is not None:
                unmatched.append(unmatched_matcher)
    return tuple(unmatched)


def _labels_of(
    judged_alerts: Iterable[AlertNames | AlertState],
    comparisons: Mapping[str, Comparison],
) -> list[AlertLabels]:
    """Return the labels of each alert. The labels of its rule are included if the rule exists."""
    labels_of_rules = {}
    for name, comparison in comparisons.items():
        for rule in comparison.judging.rules:
            labels_of_rules[name, rule.alert] = _labels_of_rule(rule)
    alerts: list[AlertLabels] = []
    for names in judged_alerts:
        labels = labels_of_rules.get((names.comparison, names.alert), {})
        of_alert = {name: str(getattr(names, name)) for name in AlertNames._fields}
        alerts.append(labels | of_alert)
    return alerts


def _alerts_in_any_segment(comparison: Comparison) -> list[AlertLabels]:
    """Return the labels of each alert, in ``all`` and in the segments that rules name."""
    segments = {ALL, *named_segments(comparison.judging.rules)}
    return list(possible_alerts(comparison, segments))


def may_concern(silence: Silence, comparison: str) -> bool:
    """Return whether the silence may match alerts of this comparison."""
    try:
        matchers = [*map(Matcher.parse, silence.matchers)]
    except ConfigError:
        return False
    labels = {"comparison": comparison}
    return all(matcher.name != "comparison" or matcher.matches(labels) for matcher in matchers)


def _may_match(matchers: Iterable[Matcher], labels: AlertLabels) -> bool:
    """Return whether the matchers may match an alert with these labels, in any segment."""
    without_segment = (matcher for matcher in matchers if matcher.name != "segment")
    return all(matcher.matches(labels) for matcher in without_segment)


def share_selectors(
    selectors: Mapping[str, Sequence[Matcher]], comparisons: Collection[Comparison]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Assign each selector to the only comparison whose alerts it may match.

    A selector is the matchers of one route or maintenance window. A selector that matches no rule
    is assigned to all comparisons. A selector that matches alerts of several comparisons is left
    out.
    """
    shared: dict[str, dict[str, tuple[str, ...]]] = {
        comparison.name: {} for comparison in comparisons
    }
    alerts = {comparison.name: _alerts_in_any_segment(comparison) for comparison in comparisons}
    for owner, matchers in selectors.items():
        without_segment = [matcher for matcher in matchers if matcher.name != "segment"]
        matched = []
        for name, labels in alerts.items():
            if find_unmatched_matchers(owner, without_segment, labels) is None:
                matched.append(name)
        if len(matched) <= 1:
            for name in matched or shared:
                shared[name][owner] = tuple(map(str, matchers))
    return shared


def with_known(unmatched: UnmatchedName, name: str, present: Collection[str]) -> UnmatchedName:
    """Add the nearest name and the names that exist.

    For a segment, the names that exist are the segments of its dimension.
    """
    kin = tuple(present)
    if "=" in name:
        dimension = f"{name.rpartition('=')[0]}="
        kin = tuple(other for other in present if other.startswith(dimension))
    return replace(unmatched, nearest=find_nearest(name, present), known=kin)
