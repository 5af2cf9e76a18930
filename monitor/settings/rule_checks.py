"""What the keys of one rule must agree on, among themselves and with their comparison."""

from collections.abc import Iterator

from monitor.metrics import Need
from monitor.model.comparison import Keep
from monitor.model.rankings import ALL
from monitor.model.rules import Direction
from monitor.model.statistics import Lack, Statistic
from monitor.settings.problems import TWICE, Problem, duplicates, suggestion
from monitor.settings.rule_options import JudgedMetric, parse_judged_metric
from monitor.settings.validation import Partial

# Of two keys that exclude each other the one that is reported, by the other one.
_EXCLUDED = {
    "frozen": (
        (
            *(
                "metric",
                "coverage",
                "statistic",
                "segments",
                "below",
                "above",
                "learned",
                "watch",
                "for",
            ),
            *("resolve_above", "resolve_below", "resolve_after"),
        ),
        (
            "does not go with frozen, which learns how often the lists of an arm change: remove "
            "this key"
        ),
    ),
    "coverage": (
        ("metric", "statistic"),
        "does not go with coverage, which is a share of the users asked: remove one of them",
    ),
    "learned": (
        ("below", "above", "resolve_above", "resolve_below"),
        "does not go with learned: the limit comes from the runs before",
    ),
}


def check_rule(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Problems of one rule of the comparison."""
    if rule.has("frozen"):
        yield from _excluded(rule, "frozen")
        if lacks_lists(comparison):
            yield Problem(
                ("frozen",),
                "compares with the lists of the last run: remove keep_lists from the comparison",
            )
        return
    yield from (_coverage(rule, comparison) if rule.has("coverage") else _metric(rule, comparison))
    yield from _thresholds(rule, comparison.get("k"))
    yield from _segments(rule, comparison)
    yield from _users_asked(rule, comparison)


def lacks_lists(comparison: Partial) -> bool:
    """Whether the comparison is told to keep no lists, or not those of all users."""
    return comparison.get("keep_lists") not in (None, Keep.ALL)


def _excluded(rule: Partial, by: str) -> Iterator[Problem]:
    keys, message = _EXCLUDED[by]
    return (Problem((key,), message) for key in keys if rule.has(key))


def _judged(rule: Partial) -> JudgedMetric | None:
    name = rule.get("metric")
    return None if name is None else parse_judged_metric(name)


def _metric(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    if not rule.has("metric") and not rule.misspells("metric", "coverage", "frozen"):
        yield Problem((), "has nothing to judge: give metric, coverage, or frozen")
    wanted, measured = _judged(rule), comparison.get("metrics")
    if wanted is None:
        return
    if wanted.derived and not comparison.has("noise_floor"):
        yield Problem(
            ("metric",),
            "needs a noise floor: add noise_floor: {temporal: true}, or another, to the comparison",
        )
    if measured is not None and str(wanted.metric) not in measured:
        yield Problem(
            ("metric",),
            f"is not measured here: add it to metrics, or use one of {', '.join(measured)}",
        )
    if wanted.metric.need is Need.RELEVANCE:
        late = (
            "needs relevance, which arrives after the run, when rules have judged it: use a "
            "metric of the lists alone"
        )
        yield Problem(("metric",), late)


def _coverage(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    yield from _excluded(rule, "coverage")
    if Lack.UNCHANGED in (rule.get("coverage") or "") and comparison.get("keep_lists") is Keep.NONE:
        yield Problem(
            ("coverage",),
            "compares with the lists of the last run: remove keep_lists from the comparison",
        )
    if rule.has("below"):
        yield Problem(("below",), "the share of users grows as less is covered: write above")


def _thresholds(rule: Partial, k: int | None) -> Iterator[Problem]:
    if rule.has("learned"):
        yield from _learned(rule)
        return
    if rule.has("watch"):
        yield Problem(("watch",), "goes with learned: a threshold has its side in below or above")
    if rule.has("below") and rule.has("above"):
        yield Problem(("above",), "give either below or above, not both")
        return
    if not rule.has("below", "above"):
        yield Problem(
            (), "has no threshold: give below (or, for share_below, above), or learned: drop"
        )
        return
    side = "below" if rule.has("below") else "above"
    resolve, wrong = (
        ("resolve_above", "resolve_below")
        if side == "below"
        else ("resolve_below", "resolve_above")
    )
    if rule.has(wrong):
        yield Problem((wrong,), f"does not go with {side}: write {resolve}")
    threshold, end = rule.get(side), rule.get(resolve)
    if (
        threshold is not None
        and end is not None
        and (end < threshold if side == "below" else end > threshold)
    ):
        order = "at least" if side == "below" else "at most"
        yield Problem(
            (resolve,),
            f"must be {order} {side}: {threshold:g}, or the alert would end while it is in breach",
        )
    yield from _reach(rule, side, resolve, k)


def _learned(rule: Partial) -> Iterator[Problem]:
    yield from _excluded(rule, "learned")
    kind = rule.get("learned")
    if rule.has("coverage") and kind == "drop":
        yield Problem(
            ("learned",),
            "a share of users without a list does not drop when it is bad: write learned: jump",
        )
    if not rule.has("coverage") and kind == "jump":
        yield Problem(
            ("learned",),
            (
                "jump goes with coverage: write drop, which finds every run that is beyond what is "
                "normal"
            ),
        )


def _reach(rule: Partial, side: str, resolve: str, k: int | None) -> Iterator[Problem]:
    """A threshold that the statistic can never pass is a rule that never fires, or always."""
    judged, statistic = _judged(rule), rule.get("statistic")
    name, lowest, highest, floor = "a share", 0.0, 1.0, None
    if not rule.has("coverage"):
        if judged is None or statistic is None:
            return
        floor, (lowest, highest) = Statistic.parse(statistic).floor, judged.bounds(k)
        name = (
            judged.metric.name if judged.derived is None else judged.derived.of(judged.metric.name)
        )
    if floor is not None:
        if not lowest < floor <= highest:
            span = f"{lowest:g} and {highest:g}"
            yield Problem(
                ("statistic",), f"{name} lies between {span}: so must the x of share_below(x)"
            )
        if side == "below" and judged is not None and judged.drifts is Direction.BELOW:
            yield Problem(("below",), f"{statistic} grows as the lists drift apart: write above")
            return
        name, lowest, highest = str(statistic), 0.0, 1.0
    threshold, end = rule.get(side), rule.get(resolve)
    unreachable = f"can never be reached: {name} lies between {lowest:g} and {highest:g}"
    is_reached = threshold is None or (
        lowest < threshold <= highest if side == "below" else lowest <= threshold < highest
    )
    if not is_reached:
        yield Problem((side,), unreachable)
    elif end is not None and not lowest <= end <= highest:
        yield Problem((resolve,), unreachable)


def _segments(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    users, declared = comparison.get("users"), rule.items("segments")
    dimensions = None if users is None else users.segments
    yield from duplicates(
        ((("segments", n), name) for n, name in declared if isinstance(name, str)), TWICE
    )
    for n, name in declared:
        dimension, separator, _ = str(name).partition("=")
        if dimensions is None or not separator or name == ALL or dimension in dimensions:
            continue
        hint = suggestion(dimension, dimensions) or f": it has {', '.join(dimensions) or 'none'}"
        yield Problem(("segments", n), f"its dimension is not among users.segments{hint}")


def _users_asked(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    users, least = comparison.get("users"), rule.get("min_users")
    if users is None or (size := users.sample_size) is None or least is None:
        return
    asked = max(size.fixed + size.rotating, size.minimum)
    if least > asked:
        where = ("min_users",) if rule.has("min_users") else ()
        yield Problem(
            where, f"could never judge: min_users is {least}, and a run asks for {asked} users"
        )
