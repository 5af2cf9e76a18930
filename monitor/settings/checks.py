"""What several settings must agree on. Each check reads what could be read, so that all problems are found at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

from monitor.model import ALL, Statistic
from monitor.options import format_duration
from monitor.receivers import ReceiverOptions
from monitor.settings.fields import is_loopback, split_address
from monitor.settings.models import ComparisonOptions, RetentionOptions, RuleOptions, Settings
from monitor.settings.needs import check_judged, check_needs, read_metric
from monitor.settings.partial import Partial, valid
from monitor.settings.problems import Path, Problem, suggestion
from monitor.settings.translating import SHORTEST, sample_size, schedule_of

_TAKEN = "another {} has this name already: names must differ"
_TWICE = "stands in this list already"


def check(raw: object, context: Mapping[str, object]) -> Iterator[Problem]:
    """Problems between settings, whether or not each of them is right by itself."""
    settings = Partial(Settings, raw, context)
    comparisons = [(n, Partial(ComparisonOptions, item, context)) for n, item in settings.items("comparisons")]
    yield from _listen(settings)
    yield from _retention(Partial(RetentionOptions, settings.raw.get("retention"), context))
    yield from _unique(
        ((("comparisons", n, "name"), each.get("name")) for n, each in comparisons),
        _TAKEN.format("comparison"),
    )
    yield from _receivers(settings, context)
    for n, comparison in comparisons:
        for problem in _comparison(comparison, context):
            yield Problem(("comparisons", n, *problem.path), problem.message)


def _unique(named: Iterable[tuple[Path, Hashable]], message: str) -> Iterator[Problem]:
    seen: set[Hashable] = set()
    for path, name in named:
        if name is not None and name in seen:
            yield Problem(path, message)
        seen.add(name)


def _listen(settings: Partial) -> Iterator[Problem]:
    listen = settings.get("listen")
    if listen is None or settings.get("listen_without_authentication") is not False:
        return
    if not is_loopback(split_address(listen)[0]):
        yield Problem(
            ("listen",),
            "can be reached from other machines, and there is no authentication: "
            "use 127.0.0.1, or set listen_without_authentication: true",
        )


def _retention(retention: Partial) -> Iterator[Problem]:
    runs = retention.get("runs")
    for key in ("scores", "evidence"):
        kept = retention.get(key)
        if retention.has(key) and runs is not None and kept is not None and kept > runs:
            yield Problem(("retention", key), "must not be longer than retention.runs: it goes with its run")


def _receivers(settings: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    named: list[tuple[Path, Hashable]] = []
    for n, item in settings.items("receivers"):
        if (entry := valid(ReceiverOptions, item, context)) is not None:
            kind = str(next(name for name in type(entry).model_fields if getattr(entry, name) is not None))
            named.extend((("receivers", n, kind, "name"), name) for name in entry.receiver_names)
    yield from _unique(named, _TAKEN.format("receiver"))


def _comparison(comparison: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    rules = [(n, Partial(RuleOptions, item, context)) for n, item in comparison.items("rules")]
    yield from _schedule(comparison)
    yield from _metrics(comparison)
    yield from check_needs(comparison)
    yield from _users(comparison)
    yield from _unique(
        ((("rules", n, "alert"), rule.get("alert")) for n, rule in rules),
        _TAKEN.format("rule of this comparison"),
    )
    for n, rule in rules:
        for problem in _rule(rule, comparison):
            yield Problem(("rules", n, *problem.path), problem.message)


def _rule(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    if rule.has("coverage"):
        yield from _rule_coverage(rule)
    else:
        yield from _rule_metric(rule, comparison)
        yield from check_judged(rule)
    yield from _thresholds(rule, comparison.get("k"))
    yield from _segments(rule, comparison)
    yield from _users_asked(rule, comparison)


def _schedule(comparison: Partial) -> Iterator[Problem]:
    every, cron, zone = (comparison.get(key) for key in ("every", "cron", "timezone"))
    if not comparison.has("every", "cron"):
        yield Problem((), "when does it run? give every (such as every: 15m) or cron")
        return
    if comparison.has("every") and comparison.has("cron"):
        yield Problem(("cron",), "give either every or cron, not both")
        return
    if comparison.has("timezone") and not comparison.has("cron"):
        yield Problem(("timezone",), "belongs to cron; every counts from 1970-01-01 00:00 UTC")
    if every is not None and every < SHORTEST:
        yield Problem(("every",), "must be at least 1s")
        return
    if (every is None and cron is None) or zone is None:
        return
    deadline = comparison.get("deadline")
    interval = schedule_of(every, cron, zone).interval
    if deadline is not None and deadline >= interval:
        yield Problem(("deadline",), f"must be shorter than the time between two runs ({format_duration(interval)})")


def _metrics(comparison: Partial) -> Iterator[Problem]:
    k = comparison.get("k")
    read = [(("metrics", n), read_metric(text)) for n, text in comparison.items("metrics")]
    yield from _unique(((path, metric) for path, metric in read), f"{_TWICE}, perhaps in another spelling")
    for path, metric in read:
        if metric is not None and metric.depth is not None and k is not None and metric.depth > k:
            yield Problem(path, f"looks at {metric.depth} items, and lists are cut to k: {k}")
    arm_metrics = ((("arm_metrics", n), text) for n, text in comparison.items("arm_metrics") if isinstance(text, str))
    yield from _unique(arm_metrics, _TWICE)


def _users(comparison: Partial) -> Iterator[Problem]:
    users, baseline = comparison.get("users"), comparison.get("baseline")
    if users is not None and users.all and baseline is not None and baseline.file is None and baseline.sql is None:
        advice = "http cannot list its users: give users.file or users.sql"
        yield Problem(("users", "all"), f"needs a baseline from file or sql; {advice}")


def _rule_metric(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    if not rule.has("metric") and not rule.misspells("metric", "coverage"):
        yield Problem((), "says nothing to judge: give metric, or coverage")
    wanted = rule.get("metric")
    measured = comparison.get("metrics")
    if wanted is not None and measured is not None and wanted not in measured:
        yield Problem(("metric",), f"is not measured here: add it to metrics, or use one of {', '.join(measured)}")


def _rule_coverage(rule: Partial) -> Iterator[Problem]:
    for key in ("metric", "statistic"):
        if rule.has(key):
            yield Problem((key,), "does not go with coverage, which is a share of the users asked: remove one of them")
    if rule.has("below"):
        yield Problem(("below",), "the share of users grows as less is covered: write above")
    above, end = rule.get("above"), rule.get("resolve_below")
    if above is not None and not 0 <= above < 1:
        yield Problem(("above",), "can never be reached: a share lies between 0 and 1")
    elif end is not None and end < 0:
        yield Problem(("resolve_below",), "can never be reached: a share lies between 0 and 1")


def _thresholds(rule: Partial, k: int | None) -> Iterator[Problem]:
    if rule.has("learned"):
        yield from _learned(rule)
        return
    if rule.has("below") and rule.has("above"):
        yield Problem(("above",), "give either below or above, not both")
        return
    if not rule.has("below", "above"):
        yield Problem((), "has no threshold: give below (or, for share_below, above), or learned: drop")
        return
    side, other = ("below", "above") if rule.has("below") else ("above", "below")
    resolve, wrong = f"resolve_{other}", f"resolve_{side}"
    if rule.has(wrong):
        yield Problem((wrong,), f"does not go with {side}: write {resolve}")
    threshold, end = rule.get(side), rule.get(resolve)
    if threshold is not None and end is not None and (end < threshold if side == "below" else end > threshold):
        order = "at least" if side == "below" else "at most"
        yield Problem((resolve,), f"must be {order} {side}: {threshold:g}, or the alert would end while it is in breach")
    yield from _reach(rule, side, resolve, k)


def _learned(rule: Partial) -> Iterator[Problem]:
    for key in ("below", "above", "resolve_above", "resolve_below"):
        if rule.has(key):
            yield Problem((key,), "does not go with learned: the limit comes from the runs before")
    if rule.has("coverage"):
        yield Problem(("learned",), "coverage is judged against a threshold: write above")


def _reach(rule: Partial, side: str, resolve: str, k: int | None) -> Iterator[Problem]:
    """A threshold must be somewhere the statistic can be, on either side of it."""
    metric, statistic = read_metric(rule.get("metric")), rule.get("statistic")
    if metric is None or rule.has("coverage") or statistic is None:
        return
    floor = Statistic.parse(statistic).floor
    lowest, highest = (metric.low, metric.high) if k is None else metric.bounds(k)
    if floor is not None and not lowest < floor <= highest:
        span = f"{lowest:g} and {highest:g}"
        yield Problem(("statistic",), f"{metric.name} lies between {span}: so must the x of share_below(x)")
    if floor is not None and side == "below" and metric.higher_is_more_alike:
        yield Problem(("below",), f"{statistic} grows as the lists drift apart: write above")
        return
    low, high = (0.0, 1.0) if floor is not None else (lowest, highest)
    name = statistic if floor is not None else metric.name
    threshold, end = rule.get(side), rule.get(resolve)
    if threshold is not None and not (low < threshold <= high if side == "below" else low <= threshold < high):
        yield Problem((side,), f"can never be reached: {name} lies between {low:g} and {high:g}")
    elif end is not None and not low <= end <= high:
        yield Problem((resolve,), f"can never be reached: {name} lies between {low:g} and {high:g}")


def _segments(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    users, declared = comparison.get("users"), rule.items("segments")
    dimensions = None if users is None else users.segments
    yield from _unique(((("segments", n), name) for n, name in declared if isinstance(name, str)), _TWICE)
    for n, name in declared:
        dimension, separator, _ = str(name).partition("=")
        if dimensions is None or not separator or name == ALL or dimension in dimensions:
            continue
        hint = suggestion(dimension, dimensions) or f": it has {', '.join(dimensions) or 'none'}"
        yield Problem(("segments", n), f"its dimension is not among users.segments{hint}")


def _users_asked(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    users, least = comparison.get("users"), rule.get("min_users")
    if users is None or users.sample is None or least is None:
        return
    size = sample_size(users.sample)
    asked = size.fixed + size.rotating
    if least > asked:
        where = ("min_users",) if rule.has("min_users") else ()
        yield Problem(where, f"could never judge: min_users is {least}, and a run asks for {asked} users")
