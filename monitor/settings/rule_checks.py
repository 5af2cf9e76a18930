"""Checks whether the keys of one rule fit each other and their comparison."""

from collections.abc import Callable, Iterator, Mapping

from monitor.boundary.options.problems import (
    LISTED_TWICE,
    Partial,
    Problem,
    find_duplicates,
    problem_of,
    write_suggestion,
)
from monitor.measures.metrics import Need, drift_direction
from monitor.model.rankings import ALL
from monitor.model.rules import Direction, Keep
from monitor.model.statistics import (
    GAPS,
    TRAITS_OF_BOTH_ARMS,
    TRAITS_OF_EARLIER_LISTS,
    DerivedMetric,
    ListTrait,
)
from monitor.settings.rule_options import (
    CoverageRuleOptions,
    FrozenRuleOptions,
    MetricRuleOptions,
    OutcomeRuleOptions,
    RuleOptions,
)

_FLOOR_METRICS = (DerivedMetric.FLOOR, DerivedMetric.OVER_FLOOR)
_LEARNED_MESSAGE = (
    "does not go with learned, which learns its limit from earlier runs: remove this key"
)
_BOTH_LISTS_MESSAGE = (
    "compares both arms' lists of a user, but with unpaired each user has lists of one arm only"
)
# Each row has a field, the fields that it excludes, and the message about an excluded field.
_EXCLUDED_KEYS = (
    ("learned", ("below", "above", "resolve_above", "resolve_below"), _LEARNED_MESSAGE),
    ("below", ("above",), "give either below or above, not both"),
    ("below", ("resolve_below",), "does not go with below: write resolve_above"),
    ("above", ("resolve_above",), "does not go with above: write resolve_below"),
)


def check_rule(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Yield the problems of one rule of the comparison."""
    kind: type[RuleOptions] = type(rule)
    yield from CHECKS[kind](rule, comparison)


def _check_frozen(_rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report a comparison that does not store the lists of all users."""
    if lacks_stored_lists(comparison):
        yield problem_of(
            "frozen",
            "compares with the lists of the last run, which are not stored for all users: "
            "remove keep_lists from the comparison",
        )


def _check_coverage(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report a share that cannot be measured, and a limit or segments that are not valid."""
    trait = None if rule.coverage is None else rule.coverage.trait
    if trait in TRAITS_OF_EARLIER_LISTS and comparison.keep_lists is Keep.NONE:
        yield problem_of(
            "coverage",
            "compares with the lists of the last run, which are not stored: remove keep_lists from "
            "the comparison",
        )
    if trait in TRAITS_OF_BOTH_ARMS and comparison.has("unpaired"):
        yield problem_of("coverage", f"{_BOTH_LISTS_MESSAGE}: use another share")
    is_log = comparison.unpaired is not None and not comparison.unpaired.has("assignments")
    if trait is ListTrait.NOT_SERVED and not is_log:
        yield problem_of("coverage", "needs unpaired without assignments: use missing")
    if rule.learned == "drop":
        yield problem_of(
            "learned",
            "drop does not go with coverage, whose shares rise as more lists are at fault: write "
            "jump",
        )
    yield from _check_limits(rule)
    if _has_one_threshold(rule):
        yield from _check_threshold(rule, "a share", 0.0, 1.0)
    yield from _check_segments(rule, comparison)
    yield from _check_min_users(rule, comparison)


def _check_metric(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report a metric that cannot be judged, and a limit or segments that are not valid."""
    if not rule.has("metric"):
        yield Problem((), "has nothing to judge: give metric, coverage, outcome, or frozen")
    elif rule.metric is not None:
        yield from _check_judged_metric(rule, comparison)
    if rule.learned == "jump":
        yield problem_of(
            "learned",
            "jump is only for coverage: write drop, which finds every run outside the normal range",
        )
    yield from _check_limits(rule)
    if _has_one_threshold(rule):
        if rule.metric is None or rule.statistic is None:
            yield from _check_resolving(rule)  # the invalid values were reported before
        elif rule.statistic.below is not None:  # share_below(x)
            yield from _check_share_below(rule, comparison.k)
            yield from _check_threshold(rule, str(rule.statistic), 0.0, 1.0)
        else:
            low, high = rule.metric.bounds(comparison.k)
            yield from _check_threshold(rule, rule.metric.short_name, low, high)
    yield from _check_segments(rule, comparison)
    yield from _check_min_users(rule, comparison)


def _check_excluded_keys(rule: Partial) -> Iterator[Problem]:
    """Report keys that another key of the rule excludes, each key once."""
    messages: dict[str, str] = {}
    for field, excluded_fields, message in _EXCLUDED_KEYS:
        for excluded in excluded_fields:
            if rule.has(field) and rule.has(excluded):
                messages.setdefault(excluded, message)
    for name, message in messages.items():
        yield problem_of(name, message)


def lacks_stored_lists(comparison: Partial) -> bool:
    """Whether ``keep_lists`` stores the lists of only some users, or of none."""
    # Without this key (None), all lists are stored if a rule or a metric needs them.
    return comparison.keep_lists not in (None, Keep.ALL)


def _check_judged_metric(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report a metric that is not measured, or that has no value when the rules judge."""
    judged = rule.metric
    needs_floor = judged.derived_metric in _FLOOR_METRICS
    is_plain_metric = judged.derived_metric is None
    if comparison.has("unpaired"):
        if needs_floor or is_plain_metric:
            yield problem_of(
                "metric",
                f"{_BOTH_LISTS_MESSAGE}: use self_gap({judged.metric}) or far_gap({judged.metric})",
            )
    elif needs_floor:
        if not comparison.has("noise_floor"):
            yield problem_of(
                "metric",
                "needs a noise floor: add one to the comparison, such as noise_floor: {temporal: "
                "true}",
            )
    elif not is_plain_metric:
        # All other derived metrics, such as `self_gap`, are for arms that serve different users.
        yield problem_of("metric", "needs unpaired, which this comparison does not have")
    if judged.derived_metric in GAPS and rule.has("statistic"):
        yield problem_of(
            "statistic",
            f"does not go with {judged.derived_metric}, which has one value for all users: remove "
            "this key",
        )
    metrics = comparison.metrics
    if metrics is not None and str(judged.metric) not in metrics:
        yield problem_of(
            "metric",
            f"is not measured here: add it to metrics, or use one of {', '.join(metrics)}",
        )
    if judged.metric.need is Need.RELEVANCE:
        yield problem_of(
            "metric",
            "needs relevance, which arrives after the rules have judged the run: use a metric "
            "that needs the lists only",
        )


def _check_outcome(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report an outcome that is not measured, and a margin that is missing or not valid.

    A rule with ``below`` and ``above`` is reported, and then checked as if it had only ``below``.
    """
    unpaired = comparison.unpaired
    outcomes = ()
    if unpaired is not None and unpaired.outcomes is not None:
        outcomes = unpaired.outcomes
    if rule.outcome is not None and rule.outcome not in outcomes:
        choices = ", ".join(outcomes) or "none"
        yield problem_of(
            "outcome", f"is not among unpaired.outcomes, which has {choices}: add it there"
        )
    yield from _check_excluded_keys(rule)
    # `has` is true if the file has at least one of these fields.
    if not rule.has("below", "above"):
        yield Problem((), "has no margin: give below, such as below: -0.02")
        return
    key, _ = _limit_keys(rule)
    margin = getattr(rule, key)
    # If the outcomes of both arms are equal, the judged value is 0, which must be no breach.
    is_valid = True
    if margin is not None:
        is_valid = margin < 0 if key == "below" else margin > 0
    if not is_valid:
        yield problem_of(
            key,
            "must be a margin beyond 0, because two healthy arms always differ: write below: "
            "-0.02 or above: 0.02",
        )
    yield from _check_resolving(rule)


CHECKS: Mapping[type[RuleOptions], Callable[[Partial, Partial], Iterator[Problem]]] = {
    MetricRuleOptions: _check_metric,
    CoverageRuleOptions: _check_coverage,
    FrozenRuleOptions: _check_frozen,
    OutcomeRuleOptions: _check_outcome,
}


def _check_limits(rule: Partial) -> Iterator[Problem]:
    """Report a rule without a limit, such as ``below``, and keys that exclude each other."""
    yield from _check_excluded_keys(rule)
    if rule.has("learned"):
        return
    if rule.has("watch"):
        yield problem_of(
            "watch",
            "is only for learned, because below and above name their own side: remove it",
        )
    if not rule.has("below", "above"):
        yield Problem((), "has no threshold: give below (above for share_below), or learned: drop")


def _has_one_threshold(rule: Partial) -> bool:
    return not rule.has("learned") and rule.has("below") != rule.has("above")


def _limit_keys(rule: Partial) -> tuple[str, str]:
    """The key of the rule's threshold, and the key of the value at which its alert ends."""
    return ("below", "resolve_above") if rule.has("below") else ("above", "resolve_below")


def _check_resolving(rule: Partial) -> Iterator[Problem]:
    """Report a value for resolving that is on the wrong side of the threshold."""
    key, resolve_key = _limit_keys(rule)
    threshold = getattr(rule, key)
    resolve_at = getattr(rule, resolve_key)
    if threshold is None or resolve_at is None:
        return
    if key == "below":
        is_in_breach = resolve_at < threshold
        limit = "at least"
    else:
        is_in_breach = resolve_at > threshold
        limit = "at most"
    if is_in_breach:
        yield problem_of(
            resolve_key,
            f"must be {limit} {threshold:g}, the value of {key}, because otherwise "
            "the alert would end while the rule is in breach: change it",
        )


def _check_threshold(rule: Partial, name: str, low: float, high: float) -> Iterator[Problem]:
    """Report a threshold that no value can pass, and a value for resolving that is not possible.

    The judged values are between ``low`` and ``high``. ``name`` is the word for them in messages.
    """
    yield from _check_resolving(rule)
    key, resolve_key = _limit_keys(rule)
    threshold = getattr(rule, key)
    resolve_at = getattr(rule, resolve_key)
    if threshold is None:
        return
    message = f"can never be reached, because {name} is between {low:g} and {high:g}: change it"
    # No value is below the lowest possible value, or above the highest one.
    is_possible = low <= threshold < high
    if key == "below":
        is_possible = low < threshold <= high
    if not is_possible:
        yield problem_of(key, message)
    elif resolve_at is not None and not low <= resolve_at <= high:
        yield problem_of(resolve_key, message)


def _check_share_below(rule: Partial, k: int | None) -> Iterator[Problem]:
    """Report a ``share_below(x)`` with an impossible x, and ``below`` for a similarity.

    As lists drift apart, more users have a similarity below x, so the share grows. Only ``above``
    detects this. For a distance, both ``above`` and ``below`` are allowed.
    """
    judged = rule.metric
    low, high = judged.bounds(k)
    if not low < rule.statistic.below <= high:
        yield problem_of(
            "statistic",
            f"{judged.short_name} is always between {low:g} and {high:g}: choose such an x for "
            "share_below(x)",
        )
    grows_with_drift = drift_direction(str(judged), rule.statistic) is Direction.ABOVE
    if rule.has("below") and grows_with_drift:
        yield problem_of("below", f"{rule.statistic} grows as the lists drift apart: write above")


def _check_segments(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report segments that are named twice, and segments that no user can be in."""
    if not isinstance(rule.segments, tuple):
        return  # `all`, `each`, or an invalid value
    named_segments = [(("segments", index), name) for index, name in enumerate(rule.segments)]
    yield from find_duplicates(named_segments, f"{LISTED_TWICE}: remove one of them")
    section = "unpaired" if comparison.has("unpaired") else "users"
    options = getattr(comparison, section)
    dimensions = None if options is None else options.segments
    if dimensions is None:
        return  # the dimensions are invalid, so it is not known which ones exist
    for path, name in named_segments:
        dimension = name.partition("=")[0]
        if name == ALL or dimension in dimensions:
            continue
        choices = ", ".join(dimensions) or "none"
        hint = write_suggestion(dimension, dimensions) or f", which has {choices}"
        yield Problem(path, f"the dimension of this segment is not among {section}.segments{hint}")


def _check_min_users(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report a rule whose ``min_users`` is larger than the number of users in a run's panel."""
    users = comparison.users
    sample = None if users is None else users.sample_size
    if sample is None or rule.min_users is None:
        return
    most_users = sample.fixed + sample.rotating
    # A small segment gets more users until it has ``minimum`` users. The segment ``all`` does not.
    if rule.segments != ALL and sample.minimum is not None:
        # Fixed users and added users are chosen in the same order, by their hashes. So the larger
        # one of these two groups contains the other one. Rotating users may be in neither group.
        most_users = max(sample.fixed, sample.minimum) + sample.rotating
    if rule.min_users > most_users:
        # If the rule has no such key, the default is too high, so the problem is about the rule.
        path = ("min_users",) if rule.has("min_users") else ()
        yield Problem(
            path,
            f"the rule would never judge, because min_users is {rule.min_users} and a run asks "
            f"only {most_users} users: lower min_users, or ask for more users",
        )
