"""The default rules, `rules: default`: they need no thresholds, since each learns what is normal for its comparison."""

import re
from collections.abc import Hashable, Iterator
from functools import cache

from monitor.metrics import Metric, Need, parse
from monitor.model.comparison import Keep
from monitor.model.rankings import Arm
from monitor.model.rules import Severity
from monitor.model.statistics import CHURN, TRAITS, CoverageShare, DerivedMetric, Lack
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.rule_options import RuleOptions

_OTHERS = 2  # further metrics whose mean has a rule: what one metric weighs lightly another may not
# Runs that a drop or jump has to be over: a fault that comes and goes is one firing. A trend asks
# for runs no worse than expected, which every second healthy one is not, and an arm that was
# trained again is not frozen: these end at the first.
_HELD = 2
# One rule for each cause, so that users without a list make one alert.
_LACKS = {
    "ListsMissing": Lack.MISSING,
    "ListsEmpty": Lack.EMPTY,
    "ListsShort": Lack.SHORT,
    "ListsDuplicated": Lack.DUPLICATED,
    "ListsFailed": Lack.FAILED,
    "SharedList": Lack.SHARED,
    "StaleLists": Lack.UNCHANGED,
    "TopReversed": Lack.REVERSED,
    "FirstItemDiffers": Lack.FIRST_DIFFERS,
    "IdenticalLists": Lack.IDENTICAL,
}
# The share of identical lists can vary in proportion, and then passes its limit too often in one
# run: 7 of 14 false pages of `calibration` over 40 segments. It fires with the second run.
_FOR = {Lack.IDENTICAL: 2}
_OF_BOTH_ARMS = (Lack.REVERSED, Lack.FIRST_DIFFERS, Lack.IDENTICAL)


def rules_of(options: ComparisonOptions) -> tuple[RuleOptions, ...]:
    """The comparison's rules: its own, and the default ones where they are wanted, but for those whose name an own rule has."""
    if not options.default_rules:
        return options.rules
    own = {rule.alert for rule in options.rules}
    return (*options.rules, *(rule for rule in default_rules(options) if rule.alert not in own))


def default_rules(options: ComparisonOptions) -> tuple[RuleOptions, ...]:
    """Rules on the first metric in full, on the means of two more, on coverage, on lists as wholes, and on standstill."""
    metrics = [
        metric for metric in map(parse, options.metrics) if metric.need is not Need.RELEVANCE
    ]
    rules = (
        [*_of_first(metrics[0], options), *_of_others(metrics[1 : 1 + _OTHERS])] if metrics else []
    )
    jump = {"learned": "jump", "segments": "each", "resolve_after": _HELD}
    coverage = (
        _rule(
            **{
                "alert": f"{prefix}{name}",
                "coverage": str(CoverageShare(lack, arm)),
                "for": _FOR.get(lack, 1),
                **jump,
            }
        )
        for arm, prefix in ((Arm.CANDIDATE, ""), (Arm.BASELINE, "Baseline"))
        for name, lack in _LACKS.items()
        if (lack is not Lack.UNCHANGED or options.keep_lists is not Keep.NONE)
        and (arm is Arm.CANDIDATE or lack not in _OF_BOTH_ARMS)
    )
    # What a few users, or a few runs, cannot show adds up over runs.
    more = (
        _rule(alert=f"{name}More", coverage=_LACKS[name], learned="trend", segments="each")
        for name in ("SharedList", "TopReversed")
    )
    frozen = (
        _rule(alert=f"{arm.capitalize()}Frozen", frozen=arm, severity=Severity.WARNING)
        for arm in Arm
        if options.keep_lists in (None, Keep.ALL)
    )
    return (*rules, *coverage, *more, *frozen)


def _of_first(metric: Metric, options: ComparisonOptions) -> Iterator[RuleOptions]:
    # The mean sees what touches everybody, the tail and distant users what touches few.
    name = str(metric)
    drop, trend = (
        {"learned": "drop", "segments": "each", "resolve_after": _HELD},
        {"learned": "trend", "segments": "each"},
    )
    yield _rule(alert="SimilarityDropped", metric=name, **drop)
    yield _rule(alert="SimilarityFalls", metric=name, **trend)
    yield _rule(
        alert="TailDropped",
        metric=name,
        statistic="p05" if metric.higher_is_more_alike else "p95",
        **drop,
    )
    for word, floor in zip(("Far", "VeryFar"), _floors(metric, options.k), strict=False):
        yield _rule(alert=f"Users{word}", metric=name, statistic=f"share_below({floor:g})", **drop)
        yield _rule(
            alert=f"Users{word}More", metric=name, statistic=f"share_below({floor:g})", **trend
        )
    if options.noise_floor is not None:
        yield _rule(alert="BeyondNoise", metric=DerivedMetric.OVER_FLOOR.of(name), **drop)
        yield _rule(alert="BeyondNoiseMore", metric=DerivedMetric.OVER_FLOOR.of(name), **trend)


@cache
def _rule(**keys: Hashable) -> RuleOptions:
    return RuleOptions.model_validate(keys)


def _of_others(metrics: list[Metric]) -> Iterator[RuleOptions]:
    for metric in metrics:
        # ``RboP09Dropped``: with its parameters, so that the name stays when another metric of the
        # family is added.
        name = "".join(word.capitalize() for word in re.findall("[a-z0-9]+", str(metric).lower()))
        change = "Dropped" if metric.higher_is_more_alike else "Rose"
        yield _rule(
            alert=f"{name}{change}",
            metric=str(metric),
            learned="drop",
            segments="each",
            resolve_after=_HELD,
        )


def _floors(metric: Metric, k: int) -> tuple[float, ...]:
    """Half and a quarter of the way from the score of disjoint lists to that of identical ones, where both are known."""
    low, high = metric.bounds(k)
    if not (metric.higher_is_more_alike and high - low < float("inf")):
        return ()
    return (low + (high - low) / 2, low + (high - low) / 4)


def arm_metrics_of(options: ComparisonOptions) -> tuple[str, ...]:
    """The arm metrics to measure: those wanted, traits that rules watch, and churn where one on standstill needs it."""
    rules = rules_of(options)
    shares = (
        CoverageShare.parse(rule.coverage).lack for rule in rules if rule.coverage is not None
    )
    watched = [lack.value for lack in shares if lack in TRAITS]
    churn = [CHURN] if any(rule.frozen is not None for rule in rules) else []
    return tuple(dict.fromkeys((*options.arm_metrics, *watched, *churn)))
