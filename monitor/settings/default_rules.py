"""The rules that `default_rules: true` adds. They learn what is normal, so they have no thresholds."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import cache, partial
from math import isfinite

from monitor.measures.metrics import Metric, Need, parse
from monitor.model.rankings import Arm
from monitor.model.rules import BOTH_ARMS, Keep
from monitor.model.statistics import (
    CHURN,
    MEASURED_TRAITS,
    TRAITS_OF_BOTH_ARMS,
    TRAITS_OF_EARLIER_LISTS,
    CoverageShare,
    DerivedMetric,
    ListTrait,
)
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.rule_options import (
    CoverageRuleOptions,
    FrozenRuleOptions,
    RuleOptions,
    parse_rule,
)
from monitor.statistics.unpaired.far_lists import find_far_statistic

# After the first metric, this many metrics get a rule on their mean. They help because each metric
# weighs changes differently.
_OTHER_METRICS = 2
# An alert on a sudden change resolves after this many good runs, so that an intermittent fault is
# one alert. An alert on a trend or a frozen arm resolves with the first good run. For a trend two
# good runs would take long, because half of the healthy runs are worse than expected. A frozen arm
# whose lists change once is no longer frozen.
_RESOLVE_AFTER = 2
# Each cause has one rule, so that users without a list cause only one alert.
_TRAIT_OF_RULE = {
    "MissingLists": ListTrait.MISSING,
    "EmptyLists": ListTrait.EMPTY,
    "ShortLists": ListTrait.SHORT,
    "DuplicatedLists": ListTrait.DUPLICATED,
    "FailedLists": ListTrait.FAILED,
    "FewerUsers": ListTrait.NOT_SERVED,
    "SharedList": ListTrait.SHARED,
    "StaleLists": ListTrait.UNCHANGED,
    "ExposureJump": ListTrait.EXPOSURE,
    "ShiftedLists": ListTrait.SHIFTED,
    "ReplacedLists": ListTrait.REPLACED,
    "TopTurned": ListTrait.TURNED,
    "TopReversed": ListTrait.REVERSED,
    "FirstItemDiffers": ListTrait.FIRST_DIFFERS,
    "IdenticalLists": ListTrait.IDENTICAL,
    "UsersAlike": ListTrait.ALIKE,
    "InterleavedLists": ListTrait.INTERLEAVED,
}
# The alert on identical lists fires in the second run. With the first run it caused 7 of the 14
# false alerts in the benchmark `calibration` over 40 segments.
_FOR = {ListTrait.IDENTICAL: 2}


@cache
def _make_rule(**keys: Hashable) -> RuleOptions:
    """Return the rule with these keys. The cache helps, as many comparisons have the same rules."""
    return parse_rule(keys)


_trend = partial(_make_rule, learned="trend", segments="each")
# Makes rules on one unusual run. Despite the word `drop`, such a rule can also detect a rise.
_sudden_change = partial(_make_rule, learned="drop", segments="each", resolve_after=_RESOLVE_AFTER)


def rules_of(options: ComparisonOptions) -> tuple[RuleOptions, ...]:
    """The rules in the file. With ``default_rules``, adds default rules that have other names."""
    if not options.default_rules:
        return options.rules
    names = {rule.alert for rule in options.rules}
    added_rules = [rule for rule in default_rules(options) if rule.alert not in names]
    return (*options.rules, *added_rules)


def default_rules(options: ComparisonOptions) -> tuple[RuleOptions, ...]:
    """Return rules on the first metric, the means of two more metrics, coverage, and frozen arms.

    The lists of a frozen arm do not change any more, although the other arm's lists change. Or the
    lists of both arms do not change any more. An unpaired comparison has only rules on the first
    metric, on coverage and on frozen arms.
    """
    # Leave out metrics of relevance, which arrives after the rules have judged the run.
    metrics = [
        metric for metric in map(parse, options.metrics) if metric.need is not Need.RELEVANCE
    ]
    if options.unpaired is not None:
        return _unpaired_rules(metrics, options)
    rules: list[RuleOptions] = []
    if metrics:
        rules += _first_metric_rules(metrics[0], options)
    judged = metrics[: 1 + _OTHER_METRICS]
    # The name of each metric depends on the names of all of them.
    names = name_metrics(judged)
    for metric, name in zip(judged[1:], names[1:], strict=True):
        change = "Drop" if metric.higher_is_more_alike else "Rise"
        rules.append(_sudden_change(alert=f"{name}{change}", metric=str(metric)))
    rules += _coverage_rules(options)
    return (*rules, *_frozen_rules(options))


def _unpaired_rules(
    metrics: Sequence[Metric], options: ComparisonOptions
) -> tuple[RuleOptions, ...]:
    """Return rules on coverage, on frozen arms, and on how differently both arms' lists changed."""
    rules: list[RuleOptions] = []
    if metrics:
        name = str(metrics[0])
        self_gap = DerivedMetric.SELF_GAP.of(name)
        rules = [
            _sudden_change(alert="SelfGapRise", metric=self_gap),
            _sudden_change(alert="SelfGapDrop", metric=self_gap, watch="improvement"),
            _trend(alert="SelfGapTrend", metric=self_gap),
        ]
        if find_far_statistic(metrics[0]) is not None:
            far_gap = DerivedMetric.FAR_GAP.of(name)
            rules.append(_sudden_change(alert="FarGapRise", metric=far_gap))
    return (*rules, *_coverage_rules(options), *_frozen_rules(options))


def _frozen_rules(options: ComparisonOptions) -> Iterator[RuleOptions]:
    """Yield a rule on each arm, and a rule on both arms.

    The rules need the stored lists of all users. If the file does not set `keep_lists` (None), all
    lists are stored as soon as a rule needs them.
    """
    if options.keep_lists in (None, Keep.ALL):
        for arm in (*Arm, BOTH_ARMS):
            yield _make_rule(alert=f"{arm.capitalize()}Frozen", frozen=arm)


def _coverage_rules(options: ComparisonOptions) -> Iterator[RuleOptions]:
    """Yield rules on the shares of users whose lists have a trait, such as a missing list."""
    unmeasured_traits: set[ListTrait] = set()
    if options.unpaired is not None:
        unmeasured_traits.update(TRAITS_OF_BOTH_ARMS)  # no user has a list of each arm
    if options.unpaired is None or options.unpaired.assignments is not None:
        # The users of a run do not depend on who was served. `MissingLists` counts the others.
        unmeasured_traits.add(ListTrait.NOT_SERVED)
    for arm, prefix in ((Arm.CANDIDATE, ""), (Arm.BASELINE, "Baseline")):
        for name, trait in _TRAIT_OF_RULE.items():
            needs_earlier_lists = trait in TRAITS_OF_EARLIER_LISTS
            lacks_lists = needs_earlier_lists and options.keep_lists is Keep.NONE
            # These traits compare both arms' lists, so the rule of the candidate is enough.
            is_second_rule = trait in TRAITS_OF_BOTH_ARMS and arm is Arm.BASELINE
            if lacks_lists or is_second_rule or trait in unmeasured_traits:
                continue
            yield _sudden_change(
                alert=f"{prefix}{name}",
                coverage=str(CoverageShare(trait, arm)),
                learned="jump",
                **{"for": _FOR.get(trait, 1)},
            )
    # The shares of these two traits may grow slowly, so a rule also adds up small changes. The
    # other shares usually change at once, and the rules above detect this.
    for name in ("SharedList", "TopReversed"):
        trait = _TRAIT_OF_RULE[name]
        if trait not in unmeasured_traits:
            yield _trend(alert=f"{name}Trend", coverage=trait)


def _first_metric_rules(metric: Metric, options: ComparisonOptions) -> Iterator[RuleOptions]:
    """Yield the rules on the first metric: on its mean, its tail, shares of users and the floor."""
    # The mean shows a change for all users. Low percentiles and shares show a change for few users.
    name = str(metric)
    tail = "p05" if metric.higher_is_more_alike else "p95"
    yield _sudden_change(alert="SimilarityDrop", metric=name)
    yield _trend(alert="SimilarityTrend", metric=name)
    yield _sudden_change(alert="TailDrop", metric=name, statistic=tail)
    low, high = metric.bounds(options.k)
    is_bounded = isfinite(high - low)
    if metric.higher_is_more_alike and is_bounded:
        for word, fraction in (("BelowHalf", 0.5), ("BelowQuarter", 0.25)):
            limit = low + fraction * (high - low)
            share = f"share_below({limit:g})"
            yield _sudden_change(alert=f"Users{word}", metric=name, statistic=share)
            yield _trend(alert=f"Users{word}Trend", metric=name, statistic=share)
    yield _sudden_change(alert="SimilarityRise", metric=name, watch="improvement")
    if options.noise_floor is not None:
        excess = DerivedMetric.OVER_FLOOR.of(name)
        yield _sudden_change(alert="NoiseExcess", metric=excess)
        yield _trend(alert="NoiseExcessTrend", metric=excess)


def name_metrics(metrics: Sequence[Metric]) -> list[str]:
    """Return the words for the metrics in the names of alerts, such as ``Rbo``.

    If two metrics differ only in their parameters, the word includes the parameters: ``RboP09`` and
    ``RboP098``.
    """
    counts = Counter(metric.name for metric in metrics)
    names = []
    for metric in metrics:
        text = metric.name if counts[metric.name] == 1 else str(metric)
        words = re.findall("[a-z0-9]+", text.lower())
        names.append("".join(map(str.capitalize, words)))
    return names


def arm_metrics_of(options: ComparisonOptions) -> tuple[str, ...]:
    """The arm metrics to measure: the configured ones, and the ones that rules need."""
    names = list(options.arm_metrics)
    rules = rules_of(options)
    for rule in rules:
        if isinstance(rule, CoverageRuleOptions) and rule.coverage.trait in MEASURED_TRAITS:
            # The arm metric that measures a trait has the trait's name.
            names.append(rule.coverage.trait.value)
    # Rules on frozen arms judge how many lists changed.
    if any(isinstance(rule, FrozenRuleOptions) for rule in rules):
        names.append(CHURN)
    return tuple(dict.fromkeys(names))
