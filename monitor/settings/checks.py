"""What several settings must agree on. Each check reads what could be read, so that all problems are found at once."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping

from monitor.options import format_duration
from monitor.receivers import PingOptions, ReceiverOptions
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import RetentionOptions, Settings
from monitor.settings.excerpt import split_address
from monitor.settings.notification_options import receiver_names
from monitor.settings.problems import TWICE, KeyPath, Problem, duplicates
from monitor.settings.required_inputs import check_required_inputs, find_metric
from monitor.settings.rule_checks import check_rule
from monitor.settings.rule_options import RuleOptions
from monitor.settings.translation import SHORTEST_INTERVAL, schedule_of
from monitor.settings.validation import Partial, valid_options
from monitor.settings.value_types import is_loopback
from monitor.settings.web_config import WebConfig
from monitor.sources import all_users_problem

_TAKEN = "another {} has this name already: names must differ"


def check_settings(raw: object, context: Mapping[str, object], access: WebConfig) -> Iterator[Problem]:
    """Problems between settings, whether or not each of them is right by itself."""
    settings = Partial(Settings, raw, context)
    comparisons = [(n, Partial(ComparisonOptions, item, context)) for n, item in settings.items("comparisons")]
    yield from _listen(settings, access)
    yield from _retention(Partial(RetentionOptions, settings.raw.get("retention"), context))
    yield from duplicates(
        ((("comparisons", n, "name"), each.get("name")) for n, each in comparisons),
        _TAKEN.format("comparison"),
    )
    yield from _receivers(settings, context)
    yield from _pings(settings, context, {each.get("name") for _, each in comparisons})
    yield from _receiver_references(settings, context)
    for n, comparison in comparisons:
        for problem in _comparison(comparison, context):
            yield Problem(("comparisons", n, *problem.path), problem.message)


def _listen(settings: Partial, access: WebConfig) -> Iterator[Problem]:
    listen = settings.get("listen")
    if listen is None or settings.get("listen_without_authentication") is not False or access.problems:
        return
    if is_loopback(split_address(listen)[0]) or (access.options is not None and access.options.authenticates):
        return
    has_file = settings.has("web_config_file")
    missing = "web_config_file names no users: TLS alone keeps nobody out" if has_file else "there is no authentication"
    yield Problem(("listen",), f"can be reached from other machines, and {missing}: {_ADVICE}")


_ADVICE = (
    "use 127.0.0.1, or give a web_config_file with basic_auth_users or client_auth_type: RequireAndVerifyClientCert, "
    "or set listen_without_authentication: true"
)


def _retention(retention: Partial) -> Iterator[Problem]:
    runs = retention.get("runs")
    for key in ("scores", "lists", "evidence", "summaries"):
        kept = retention.get(key)
        if retention.has(key) and runs is not None and kept is not None and kept > runs:
            yield Problem(("retention", key), "must not be longer than retention.runs: it goes with its run")


def _receivers(settings: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    named: list[tuple[KeyPath, Hashable]] = []
    for n, item in settings.items("receivers"):
        if (entry := valid_options(ReceiverOptions, item, context)) is not None:
            kind = str(next(name for name in type(entry).model_fields if getattr(entry, name) is not None))
            named.extend((("receivers", n, kind, "name"), name) for name in entry.receiver_names)
    yield from duplicates(named, _TAKEN.format("receiver"))


def _pings(settings: Partial, context: Mapping[str, object], known: set[str | None]) -> Iterator[Problem]:
    for n, item in settings.items("pings"):
        if (entry := valid_options(PingOptions, item, context)) is not None:
            for place, name in enumerate(entry.comparisons or ()):
                if name not in known and None not in known:
                    yield Problem(("pings", n, "comparisons", place), f"there is no comparison {name!r}")


def _receiver_references(settings: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    """Names of receivers in routes and fallbacks."""
    entries = [valid_options(ReceiverOptions, item, context) for _, item in settings.items("receivers")]
    if None in entries:
        return
    known = receiver_names([entry for entry in entries if entry is not None])
    named: list[tuple[KeyPath, object]] = []
    for n, item in settings.items("routes"):
        found = item.get("receivers") if isinstance(item, dict) else None
        named.extend((("routes", n, "receivers", m), name) for m, name in enumerate(found if isinstance(found, list) else ()))
    given = settings.get("fallbacks") or {}
    named.extend((("fallbacks", name), each) for name, to in given.items() for each in (name, to))
    for path, name in named:
        if isinstance(name, str) and name not in known:
            yield Problem(path, f"no receiver is called {name}: {_choices(known)}")
    yield from (Problem(("fallbacks", name), "cannot stand in for itself") for name, to in given.items() if name == to)


def _choices(known: Collection[str]) -> str:
    return f"there are {', '.join(sorted(known))}" if known else "there are none"


def _comparison(comparison: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    rules = [(n, Partial(RuleOptions, item, context)) for n, item in comparison.items("rules")]
    yield from _schedule(comparison)
    yield from _metrics(comparison)
    yield from check_required_inputs(comparison)
    yield from _users(comparison)
    yield from duplicates(
        ((("rules", n, "alert"), rule.get("alert")) for n, rule in rules),
        _TAKEN.format("rule of this comparison"),
    )
    for n, rule in rules:
        for problem in check_rule(rule, comparison):
            yield Problem(("rules", n, *problem.path), problem.message)


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
    if every is not None and every < SHORTEST_INTERVAL:
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
    read = [(("metrics", n), find_metric(text)) for n, text in comparison.items("metrics")]
    yield from duplicates(((path, metric) for path, metric in read), f"{TWICE}, perhaps in another spelling")
    for path, metric in read:
        if metric is not None and metric.depth is not None and k is not None and metric.depth > k:
            yield Problem(path, f"looks at {metric.depth} items, and lists are cut to k: {k}")
    arm_metrics = ((("arm_metrics", n), text) for n, text in comparison.items("arm_metrics") if isinstance(text, str))
    yield from duplicates(arm_metrics, TWICE)


def _users(comparison: Partial) -> Iterator[Problem]:
    users, baseline = comparison.get("users"), comparison.get("baseline")
    if users is not None and users.all and baseline is not None and (problem := all_users_problem(baseline)):
        yield Problem(("users", "all"), problem)
