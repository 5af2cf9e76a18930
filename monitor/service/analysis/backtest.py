"""What other rules would have made of a comparison's stored runs, and thresholds suggested from these. Stores nothing."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from monitor.errors import ConfigError
from monitor.metrics import Metric, Need, parse
from monitor.model.alerts import ACCEPTED, Transition
from monitor.model.comparison import Comparison
from monitor.model.memory import MemoryRequest, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import MIN_HEALTHY_RUNS, Direction, FixedLimit, SimilarityRule, Subject
from monitor.model.runs import RunRecord, RunStatus, Summary
from monitor.model.statistics import Statistic
from monitor.pipeline.expectations import REMEMBERED
from monitor.pipeline.judgement import Rejudgement, complete_record
from monitor.pipeline.rule_series import RuleSeries
from monitor.ports import History, Store
from monitor.reference.prediction import refer
from monitor.reference.thresholds import Budget, Threshold, propose
from monitor.service.runner import pick_comparison
from monitor.settings.configuration import Settings
from monitor.settings.translation import to_comparison, to_schedule

AT_ONCE = 100
"""Runs whose summaries are in memory at once."""

STATISTICS = ("mean", "p05")
_STEPS = 10_000
_FAR_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """What became of one comparison in the period; transitions in order."""

    comparison: Comparison
    runs: Mapping[RunStatus, int]
    transitions: tuple[Transition, ...]  # those that the rules would have made
    stored: tuple[Transition, ...]  # those that were made
    lacking: Mapping[
        str, int
    ]  # ok runs by alert that a rule could not judge: what it looks at was not kept
    measured: Mapping[
        Subject, Mapping[datetime, float | None]
    ]  # what rules on similarity look at, over all users, by slot


def backtest_rules(
    comparison: Comparison,
    store: Store,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Backtest:
    """Judge all stored runs up to the slot ``end`` by the comparison's rules.

    Return what changes from slot ``start`` on.
    """

    def is_meant(slot: datetime) -> bool:
        return (start is None or slot >= start) and (end is None or slot <= end)

    made = store.alerts.transitions(comparison=comparison.name, limit=None)
    accepted = tuple(each for each in made if each.alert == ACCEPTED)
    installation = store.alerts.installation(create=False)
    rejudging = Rejudgement(comparison=comparison, installation=installation, accepted=accepted)
    runs: Counter[RunStatus] = Counter()
    lacking: Counter[str] = Counter()
    transitions: list[Transition] = []
    measured: dict[Subject, dict[datetime, float | None]] = {}
    # From the first run on: those before the period teach what is normal, and may leave alerts
    # firing.
    for record in finished_records(comparison.name, store.history, end):
        whole, lacks = complete_record(comparison, record, store.history)
        changed = rejudging.judge(whole, is_whole=not lacks)
        if is_meant(record.run.slot):
            runs[record.run.status] += 1
            transitions.extend(changed)
            whole_of = {each.metric: each for each in whole.summaries if each.segment == ALL}
            for metric, statistic in (rule.subject for rule in comparison.judging.similarity_rules):
                value = whole_of[metric].value(statistic) if metric in whole_of else None
                measured.setdefault(Subject(metric, statistic), {})[record.run.slot] = value
            if record.run.status is RunStatus.OK:
                lacking.update(lacks)
    return Backtest(
        comparison=comparison,
        runs=runs,
        transitions=tuple(transitions),
        stored=tuple(each for each in made if is_meant(each.slot) and each.alert != ACCEPTED),
        lacking=lacking,
        measured=measured,
    )


def finished_records(
    comparison: str, history: History, end: datetime | None
) -> Iterator[RunRecord]:
    """All finished runs of the comparison up to this slot, oldest first, a few at a time."""
    after: datetime | None = None
    # A few at a time: a long history takes no more memory than a short one.
    while found := history.run_records(comparison, after=after, limit=AT_ONCE):
        for record in found:
            if end is not None and record.run.slot > end:
                return
            yield record
        after = found[-1].run.slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A threshold, or in words why there is none. Changes are in the statistic's own unit."""

    rule: SimilarityRule
    segment: str
    runs: int  # healthy ones that it was learned from
    expected: float | None = None  # what is normal after them
    usually: float | None = None  # the change that one run shows with a chance of 50 %
    nearly_always: float | None = None  # likewise of 95 %
    caught: tuple[Transition, ...] = ()  # the starts of its firings over all stored runs
    obstacle: str | None = None  # why there is no threshold
    note: str | None = None  # what to know of what it was learned from


def configured_comparison(
    settings: Settings, name: str, every: timedelta | None
) -> tuple[Comparison, timedelta]:
    """The configured comparison, with another accepted time between false pages if given, and the time between its runs."""
    options = pick_comparison({each.name: each for each in settings.comparisons}, name)
    comparison, interval = to_comparison(options), to_schedule(options).interval
    if every is None:
        return comparison, interval
    judging = replace(comparison.judging, runs_a_false_page=every / interval)
    return replace(comparison, judging=judging), interval


def suggest_thresholds(
    comparison: Comparison,
    history: History,
    *,
    statistics: Sequence[str] = STATISTICS,
    segments: Sequence[str] = (ALL,),
    interval: timedelta,
) -> tuple[Suggestion, ...]:
    """One suggestion for each statistic of each metric that was measured, in each segment (``each``: all that were).

    All together page falsely once in ``runs_a_false_page`` runs. Learned from the newest ok runs of this configuration after
    which no alert of the segment was pending or firing, ``interval`` apart. ConfigError when there is none.
    """
    past = newest_runs(comparison, history)
    looks = _looks(comparison, past, statistics, segments)
    budget = Budget(
        runs=max(1.0, comparison.judging.runs_a_false_page),
        segments=[*dict.fromkeys(series.segment for series in looks)],
        looks={_name(series.rule): 1.0 for series in looks},
    )
    found = [
        _suggest(series, past, budget, interval, _worst(series.rule, comparison.measuring.k))
        for series in looks
    ]
    return _with_caught(comparison, _uniquely_named(found), history)


def newest_runs(comparison: Comparison, history: History) -> tuple[PastRun, ...]:
    """The newest ok runs of the present configuration with all their summaries.

    ConfigError when there is none.
    """
    request = MemoryRequest(
        comparison=comparison.name,
        config_hash=comparison.config_hash,
        before=_FAR_FUTURE,
        runs=REMEMBERED,
        series={"none": ""},  # of this no run has a lesson, so that all come with summaries
    )
    past = history.memory_of(request).past
    if not past:
        raise ConfigError(
            (
                f"no ok run of {comparison.name} is stored for its present configuration: run or "
                "replay some first"
            )
        )
    return past


def _uniquely_named(found: Sequence[Suggestion]) -> list[Suggestion]:
    seen: Counter[str] = Counter()
    named = []
    for each in found:
        seen[each.rule.alert] += 1
        number = seen[each.rule.alert]
        alert = each.rule.alert if number == 1 else f"{each.rule.alert}-{number}"
        named.append(replace(each, rule=replace(each.rule, alert=alert)))
    return named


def _name(rule: SimilarityRule) -> str:
    return f"{rule.statistic} of {rule.metric}"


def _worst(rule: SimilarityRule, k: int) -> float:
    """The last value there is on the side that the rule watches, on the scale that is judged."""
    low, high = (0.0, np.pi / 2) if rule.is_share else parse(rule.metric).bounds(k)
    return low if rule.direction is Direction.BELOW else high


def _looks(
    comparison: Comparison,
    past: Sequence[PastRun],
    statistics: Sequence[str],
    segments: Sequence[str],
) -> list[RuleSeries[SimilarityRule]]:
    """Each statistic of each metric in each segment, as a rule whose threshold is to be found."""
    seen: dict[str, set[str]] = defaultdict(set)
    for run in past:
        for summary in run.summaries:
            seen[summary.metric].add(summary.segment)
    names = [Statistic.parse(each) for each in statistics]
    found = []
    for metric in (parse(name) for name in comparison.measuring.metrics):
        known = seen.get(str(metric), set())
        wanted = (
            sorted(known, key=lambda name: (name != ALL, name)) if "each" in segments else segments
        )
        if metric.need is not Need.RELEVANCE:
            found += [
                RuleSeries(_rule(metric, name, segment), segment)
                for name in names
                for segment in wanted
                if segment in known
            ]
    if not found:
        raise ConfigError(
            f"no run of {comparison.name} has summaries of the segments {', '.join(segments)}"
        )
    return found


def _rule(metric: Metric, statistic: Statistic, segment: str) -> SimilarityRule:
    is_share = statistic.floor is not None
    # The rule watches the side on which lists drift apart.
    direction = Direction.BELOW if metric.higher_is_more_alike is not is_share else Direction.ABOVE
    words = re.findall(r"[A-Za-z0-9]+", f"{metric} {statistic} {'' if segment == ALL else segment}")
    return SimilarityRule(
        alert="".join(word[0].upper() + word[1:] for word in words)[:100],
        metric=str(metric),
        statistic=statistic,
        limit=FixedLimit(direction=direction, value=0.0, resolve_at=0.0),
        segments="all" if segment == ALL else (segment,),
    )


def _suggest(
    look: RuleSeries[SimilarityRule],
    past: Sequence[PastRun],
    budget: Budget,
    interval: timedelta,
    worst: float,
) -> Suggestion:
    healthy, note = pick_healthy(past, look)
    typical = int(np.median([each.n for each in healthy])) if healthy else 0
    series = replace(look, rule=replace(look.rule, min_users=max(1, typical // 2)))
    values, errors = (
        np.array([series.measure(each) for each in healthy])
        .reshape(len(healthy), 2)
        .T[..., np.newaxis]
    )
    reference = refer(values, errors)
    runs = int(reference.runs[0])
    if runs < MIN_HEALTHY_RUNS:
        return _none(series, runs, _why_so_few(series, healthy, runs))
    share = budget.share(series.segment, _name(look.rule))
    largest = np.nanmax(errors, axis=0)
    found = propose(reference, largest, share, direction=series.rule.direction, worst=worst)
    if found.least_share[0] > share:
        best = budget.runs * share / float(found.least_share[0]) * interval
        every = f"one false page in {_days(budget.runs * interval)}"
        return _none(
            series,
            runs,
            f"{runs} healthy runs are too few for {every}: at best one in {_days(best)}",
        )
    return replace(_suggestion(series, typical, runs, found), note=note)


def pick_healthy(
    past: Sequence[PastRun], series: RuleSeries[SimilarityRule]
) -> tuple[list[Summary], str | None]:
    """The series' summaries of runs after which no alert of the segment, or of all, was pending or firing; else of all."""
    wanted = (series.segment, series.rule.metric)
    found = [
        (run, each)
        for run in past
        for each in run.summaries
        if (each.segment, each.metric) == wanted and each.n
    ]
    quiet = [
        each
        for run, each in found
        if not any(segment in (series.segment, ALL) for _, segment in run.states)
    ]
    # A threshold is set so that it is hardly ever quiet: where that leaves too few runs, all count.
    if len(quiet) >= MIN_HEALTHY_RUNS or len(quiet) == len(found):
        return quiet, None
    return [each for _, each in found], "learned from runs in alarm too: hardly any was quiet"


def _none(series: RuleSeries[SimilarityRule], runs: int, obstacle: str) -> Suggestion:
    return Suggestion(rule=series.rule, segment=series.segment, runs=runs, obstacle=obstacle)


def _why_so_few(series: RuleSeries[SimilarityRule], healthy: Sequence[Summary], runs: int) -> str:
    rule = series.rule
    if len(healthy) >= MIN_HEALTHY_RUNS and not any(
        each.value(str(rule.statistic)) is not None for each in healthy
    ):
        return f"{rule.statistic} was not summarized: runs do so once any rule asks for it"
    if len(healthy) >= MIN_HEALTHY_RUNS and runs == 0:
        return f"{rule.statistic} of so few users is too uncertain"
    return f"{runs} of the {MIN_HEALTHY_RUNS} healthy runs that are the least"


def _suggestion(
    series: RuleSeries[SimilarityRule], users: int, runs: int, found: Threshold
) -> Suggestion:
    expected, limit, usually, nearly_always = (
        series.show(float(each[0]), users) or 0.0
        for each in (found.expected, found.limit, found.usually, found.nearly_always)
    )
    direction = series.rule.direction
    # Four decimals, rounded away from what is healthy, so that rounding adds no page.
    round_away = math.floor if direction is Direction.BELOW else math.ceil
    threshold = round_away(limit * _STEPS) / _STEPS
    return Suggestion(
        rule=replace(
            series.rule,
            limit=FixedLimit(direction=direction, value=threshold, resolve_at=threshold),
        ),
        segment=series.segment,
        runs=runs,
        expected=expected,
        usually=abs(usually - expected),
        nearly_always=abs(nearly_always - expected),
    )


def _days(span: timedelta) -> str:
    return f"{span / timedelta(days=1):,.3g} days"


def _with_caught(
    comparison: Comparison, found: Sequence[Suggestion], history: History
) -> tuple[Suggestion, ...]:
    """The suggestions with the pages that they would have sent over the stored runs of the present configuration."""
    rules = tuple(each.rule for each in found if each.obstacle is None)
    rejudging = Rejudgement(
        comparison=replace(comparison, judging=replace(comparison.judging, rules=rules))
    )
    firings: dict[str, list[Transition]] = defaultdict(list)
    for record in finished_records(comparison.name, history, None):
        if record.run.config_hash == comparison.config_hash:
            for each in rejudging.judge(record):
                firings[each.alert].extend([each] if each.is_start else [])
    return tuple(replace(each, caught=tuple(firings[each.rule.alert])) for each in found)
