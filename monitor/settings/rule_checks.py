"""Checks whether the keys of one rule fit each other and their comparison."""

from collections.abc import Iterator

from monitor.boundary.options.problems import (
    TWICE,
    Partial,
    Problem,
    duplicates,
    problem_of,
    suggestion,
)
from monitor.measures.metrics import Need, drift_direction
from monitor.model.rankings import ALL
from monitor.model.rules import Direction, Keep
from monitor.model.statistics import GAPS, OF_BOTH_ARMS, OF_EARLIER_LISTS, DerivedMetric
from monitor.settings.rule_options import RuleOptions

_OF_FROZEN = (
    "does not go with frozen, which learns how often an arm's lists change: remove this key"
)
_OF_COVERAGE = (
    "does not go with coverage, which is itself a share of users: remove this key or coverage"
)
_SHARES_RISE = (
    "does not go with coverage, whose shares rise as more lists are at fault: write above"
)
_OF_FLOOR = (DerivedMetric.FLOOR, DerivedMetric.OVER_FLOOR)
_OF_LEARNED = "does not go with learned, which learns its limit from earlier runs: remove this key"
_BOTH_LISTS = (
    "compares both arms' lists of a user, but with unpaired each user has lists of one arm only"
)
_OF_OUTCOME = (
    "does not go with outcome, which has one interval for all users of both arms: remove this key"
)
# Each row has a field, the fields that it excludes, and the message about an excluded field.
_EXCLUDED = (
    ("frozen", ("metric", "coverage", "statistic", "segments", "below", "above"), _OF_FROZEN),
    ("frozen", ("learned", "watch", "for_runs", "resolve_above", "resolve_below"), _OF_FROZEN),
    ("frozen", ("resolve_after",), _OF_FROZEN),
    ("outcome", ("metric", "coverage", "frozen", "statistic", "segments"), _OF_OUTCOME),
    ("outcome", ("learned", "watch"), _OF_OUTCOME),
    ("coverage", ("metric", "statistic"), _OF_COVERAGE),
    ("coverage", ("below",), _SHARES_RISE),
    ("learned", ("below", "above", "resolve_above", "resolve_below"), _OF_LEARNED),
    ("below", ("above",), "give either below or above, not both"),
    ("below", ("resolve_below",), "does not go with below: write resolve_above"),
    ("above", ("resolve_above",), "does not go with above: write resolve_below"),
)


def check_rule(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Yield the problems of one rule of the comparison."""
    yield from _excluded(rule)
    yield from _stored_lists(rule, comparison)
    compares_arms = rule.coverage is not None and rule.coverage.lack in OF_BOTH_ARMS
    if compares_arms and comparison.has("unpaired"):
        yield problem_of("coverage", f"{_BOTH_LISTS}: use another share")
    if rule.has("frozen"):
        return  # such a rule has no other keys that could be wrong
    if rule.has("outcome"):
        yield from _outcome(rule, comparison)
    else:
        yield from _series(rule, comparison)


def _series(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report the problems of a rule on a metric or on a share of users."""
    if not rule.has("metric", "coverage"):
        yield Problem((), "has nothing to judge: give metric, coverage, outcome, or frozen")
    elif not rule.has("coverage") and rule.metric is not None:
        yield from _metric(rule, comparison)
    if rule.has("learned"):
        yield from _learned(rule)
    else:
        yield from _thresholds(rule, comparison.k)
    yield from _segments(rule, comparison)
    yield from _users_asked(rule, comparison)


def _stored_lists(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report a rule that needs the lists of the last run, if the comparison does not store them."""
    if rule.has("frozen"):
        if lacks_lists(comparison):
            yield problem_of(
                "frozen",
                "compares with the lists of the last run, which are not stored for all users: "
                "remove keep_lists from the comparison",
            )
        return
    needs_lists = rule.coverage is not None and rule.coverage.lack in OF_EARLIER_LISTS
    if needs_lists and comparison.keep_lists is Keep.NONE:
        yield problem_of(
            "coverage",
            "compares with the lists of the last run, which are not stored: remove keep_lists from "
            "the comparison",
        )


def lacks_lists(comparison: Partial) -> bool:
    """Whether the comparison stores the lists of only some users, or of none."""
    return comparison.keep_lists not in (None, Keep.ALL)


def _excluded(rule: Partial) -> Iterator[Problem]:
    """Report keys that another key of the rule excludes, each key once."""
    messages: dict[str, str] = {}
    for field, excluded, message in _EXCLUDED:
        for name in excluded:
            if rule.has(field) and rule.has(name):
                messages.setdefault(name, message)
    for name, message in messages.items():
        # Some keys, such as `for`, have another name in the file.
        key = RuleOptions.model_fields[name].alias or name
        yield problem_of(key, message)


def _metric(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report a metric that is not measured, or that has no value when the rules judge."""
    judged = rule.metric
    is_of_floor = judged.derived in _OF_FLOOR
    is_unpaired = comparison.has("unpaired")
    if is_unpaired and (is_of_floor or judged.derived is None):
        yield problem_of(
            "metric",
            f"{_BOTH_LISTS}: use self_gap({judged.metric}) or far_gap({judged.metric})",
        )
    elif judged.derived and not is_of_floor and not is_unpaired:
        yield problem_of("metric", "needs unpaired, which this comparison does not have")
    elif is_of_floor and not comparison.has("noise_floor"):
        yield problem_of(
            "metric",
            "needs a noise floor: add one to the comparison, such as noise_floor: {temporal: true}",
        )
    if judged.derived in GAPS and rule.has("statistic"):
        yield problem_of(
            "statistic",
            f"does not go with {judged.derived}, which has one value for all users: remove this "
            "key",
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


def _outcome(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report the problems of a rule on an outcome.

    These are an outcome that is not measured, a missing margin, a margin that is not beyond 0, and
    a value for resolving that does not fit the margin. A rule with both ``below`` and ``above`` is
    judged by ``below`` only, because `_excluded` reports it.
    """
    unpaired = comparison.unpaired
    outcomes = () if unpaired is None or unpaired.outcomes is None else unpaired.outcomes
    if rule.outcome is not None and rule.outcome not in outcomes:
        named = ", ".join(outcomes) or "none"
        yield problem_of(
            "outcome", f"is not among unpaired.outcomes, which has {named}: add it there"
        )
    # `has` is true if the file has at least one of these fields.
    if not rule.has("below", "above"):
        yield Problem((), "has no margin: give below, such as below: -0.02")
        return
    side = "below" if rule.has("below") else "above"
    margin = getattr(rule, side)
    is_margin = margin is None or (margin < 0 if side == "below" else margin > 0)
    if not is_margin:
        yield problem_of(
            side,
            "must be a margin beyond 0, because two healthy arms always differ: write below: -0.02 "
            "or above: 0.02",
        )
    yield from _threshold(rule, k=None)


def _learned(rule: Partial) -> Iterator[Problem]:
    """Report a kind of learning that does not go with what the rule is about."""
    if rule.has("coverage") and rule.learned == "drop":
        yield problem_of(
            "learned",
            "drop does not go with coverage, whose shares rise as more lists are at fault: write "
            "jump",
        )
    if not rule.has("coverage") and rule.learned == "jump":
        yield problem_of(
            "learned",
            "jump is only for coverage: write drop, which finds every run outside the normal range",
        )


def _thresholds(rule: Partial, k: int | None) -> Iterator[Problem]:
    """Report a rule without ``learned`` that has no threshold, or one that cannot be right.

    A rule with both ``below`` and ``above`` is ignored here, because `_excluded` reports it.
    """
    if rule.has("watch"):
        yield problem_of(
            "watch",
            "is only for learned, because below and above name their own side: remove it",
        )
    thresholds = [side for side in ("below", "above") if rule.has(side)]
    if not thresholds:
        yield Problem((), "has no threshold: give below (above for share_below), or learned: drop")
    elif len(thresholds) == 1:
        yield from _threshold(rule, k)


def _threshold(rule: Partial, k: int | None) -> Iterator[Problem]:
    """Report a threshold that no value can pass, and a resolve value on the wrong side.

    With such a threshold the rule would never fire, or always.
    """
    is_below = rule.has("below")
    side, resolve = ("below", "resolve_above") if is_below else ("above", "resolve_below")
    threshold = getattr(rule, side)
    resolve_at = getattr(rule, resolve)
    if threshold is None:
        return  # the value is invalid, which was reported before
    if resolve_at is not None:
        is_in_breach = resolve_at < threshold if is_below else resolve_at > threshold
        if is_in_breach:
            yield problem_of(
                resolve,
                f"must be {'at least' if is_below else 'at most'} {threshold:g}, the value of "
                f"{side}, because otherwise the alert would end while the rule is in breach: "
                "change it",
            )
    low, high = 0.0, 1.0
    if rule.has("coverage"):
        name = "a share"
    elif rule.metric is None or rule.statistic is None:
        return  # invalid values were reported before
    elif rule.statistic.floor is None:
        name = rule.metric.short_name
        low, high = rule.metric.bounds(k)
    else:
        name = str(rule.statistic)
        yield from _check_share_below(rule, k)
    message = f"can never be reached, because {name} is between {low:g} and {high:g}: change it"
    # No value is below the lowest possible value, or above the highest one.
    is_possible = low < threshold <= high if is_below else low <= threshold < high
    if not is_possible:
        yield problem_of(side, message)
    elif resolve_at is not None and not low <= resolve_at <= high:
        yield problem_of(resolve, message)


def _check_share_below(rule: Partial, k: int | None) -> Iterator[Problem]:
    """Report a ``share_below(x)`` with an impossible x, and ``below`` for a similarity.

    If lists drift apart, the similarity of more users is below x. So the share grows, and only
    ``above`` detects this. For a distance both ``above`` and ``below`` are allowed.
    """
    judged = rule.metric
    low, high = judged.bounds(k)
    # ``floor`` is the x of ``share_below(x)``.
    if not low < rule.statistic.floor <= high:
        yield problem_of(
            "statistic",
            f"{judged.short_name} is always between {low:g} and {high:g}: choose such an x for "
            "share_below(x)",
        )
    grows = drift_direction(str(judged), rule.statistic) is Direction.ABOVE
    if rule.has("below") and grows:
        yield problem_of("below", f"{rule.statistic} grows as the lists drift apart: write above")


def _segments(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report segments that are named twice, and segments that no user can be in."""
    if not isinstance(rule.segments, tuple):
        return  # `all`, `each`, or an invalid value
    named = [(("segments", index), name) for index, name in enumerate(rule.segments)]
    yield from duplicates(named, f"{TWICE}: remove one of them")
    owner = "unpaired" if comparison.has("unpaired") else "users"
    options = getattr(comparison, owner)
    dimensions = None if options is None else options.segments
    if dimensions is None:
        return  # the dimensions are invalid, so it is not known which ones exist
    for path, name in named:
        dimension = name.partition("=")[0]
        if name == ALL or dimension in dimensions:
            continue
        hint = suggestion(dimension, dimensions) or f", which has {', '.join(dimensions) or 'none'}"
        yield Problem(path, f"the dimension of this segment is not among {owner}.segments{hint}")


def _users_asked(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report a rule that needs more users than a run asks for in any segment that it judges.

    The users that are added for ``sample.minimum`` are in their segment, but not in ``all``.
    """
    users = comparison.users
    size = None if users is None else users.sample_size
    if size is None or rule.min_users is None:
        return
    most_users = size.fixed + size.rotating
    if rule.segments != ALL and size.minimum is not None:
        # Added users and fixed users have the smallest hashes, with the same key. So in a segment
        # the larger group contains the smaller group. All rotating users may be other users.
        most_users = max(size.fixed, size.minimum) + size.rotating
    if rule.min_users > most_users:
        yield Problem(
            # Without the key, the default is too high, and the problem belongs to the rule.
            ("min_users",) if rule.has("min_users") else (),
            f"the rule would never judge, because min_users is {rule.min_users} and a run asks "
            f"only {most_users} users: lower min_users, or ask for more users",
        )
