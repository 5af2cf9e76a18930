"""Checks whether settings fit together.

An invalid setting is None here. The checks skip it, and report the problems of all other settings.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from monitor.boundary.options import format_duration
from monitor.boundary.options.problems import (
    LISTED_TWICE,
    MISSING,
    NAME_TAKEN,
    KeyPath,
    Partial,
    Problem,
    find_duplicates,
    problem_of,
    problems_within,
)
from monitor.measures.arm_metrics import ArmMetric, ArmNeed, parse_arm_metric
from monitor.measures.metrics import Metric, Need, parse
from monitor.model.instants import utc_now
from monitor.model.rules import Keep
from monitor.settings.addresses import is_loopback, split_address
from monitor.settings.configuration import receivers_by_name
from monitor.settings.rule_checks import check_rule, lacks_stored_lists
from monitor.settings.rule_options import MetricRuleOptions
from monitor.settings.schedule import SHORTEST_INTERVAL
from monitor.settings.translation import to_schedule
from monitor.settings.unchecked_settings import comparison_names, names_in
from monitor.settings.unpaired_checks import check_unpaired
from monitor.settings.value_types import NAME_MESSAGE, is_name
from monitor.sources import SOURCES, SampleOptions, SourceOptions, all_users_problem, joined_problem
from monitor.storage.database_url import file_of, parse_url
from monitor.web.access_options import AccessOptions

_Comparisons = Sequence[tuple[int, Partial]]

_ADVICE = (
    "use 127.0.0.1, or give a web_config_file with basic_auth_users or client_auth_type: "
    "RequireAndVerifyClientCert, or set listen_without_authentication: true"
)
_EXAMPLES = {
    Need.ITEM_WEIGHTS: "item_weights: {file: {path: ..., item: ..., weight: ...}}",
    Need.RELEVANCE: "relevance: {file: {path: ..., user: ..., items: ..., grades: ...}}",
}
_NO_PANEL_MESSAGE = (
    "panel means the fixed users of users.sample, but there are none: add fixed: ... to "
    "users.sample, or write a number of users, such as 10000"
)
_NEVER_CERTAIN_MESSAGE = (
    "stop_when: decided ends a run before all users are asked. For this, each rule on a metric "
    "needs below or above, and judges share_below(x) or the mean of bounded scores: change the "
    "rules, or remove stop_when"
)
_SCORES_PATH = ("scores_to", "file", "path")
_DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal", ".lock")
_READ_KEYS = ("baseline", "candidate", "users", "item_weights", "item_titles", "relevance")


def check_settings(settings: Partial, access: AccessOptions | None) -> Iterator[Problem]:
    """Yield the problems of settings that do not fit together.

    ``access`` has the options of the web configuration file. It is None if there is no such file,
    or if the file has problems.
    """
    entries = settings.entries or ()
    comparisons = tuple((index, entry) for index, entry in enumerate(entries) if entry is not None)
    yield from _check_listen(settings, access)
    if settings.retention is not None:
        yield from _check_retention(settings.retention)
    yield from _check_names(comparisons)
    yield from _check_score_files(settings, comparisons)
    yield from _check_receivers(settings)
    yield from _check_pings(settings)
    for index, comparison in comparisons:
        yield from problems_within(("comparisons", index), _check_comparison(comparison))


def _check_names(comparisons: _Comparisons) -> Iterator[Problem]:
    """Report names that occur twice, and candidates whose comparison would have an invalid name.

    An entry with `candidates` defines the comparisons NAME.KEY. There is then no comparison
    NAME, but no other entry may use this name.
    """
    names: list[tuple[KeyPath, Any]] = []
    candidate_names: list[tuple[KeyPath, str | None]] = []
    for index, comparison in comparisons:
        names.append((("comparisons", index, "name"), comparison.name))
        # `names_in` yields NAME or the names NAME.KEY, each with the key in the file that defines
        # it.
        for path, name in names_in(vars(comparison)):
            if path[0] == "candidates":
                candidate_names.append((("comparisons", index, *path), name))
    yield from find_duplicates([*names, *candidate_names], NAME_TAKEN.format("comparison"))
    for path, name in candidate_names:
        if name is not None and not is_name(name):
            yield Problem(path, f"becomes the name of a comparison, NAME.KEY, which {NAME_MESSAGE}")


def _check_listen(settings: Partial, access: AccessOptions | None) -> Iterator[Problem]:
    """Report an address that other machines can reach without authentication.

    ``access`` has the options of the web configuration file. It is None if the file is missing or
    unreadable.
    """
    listen = settings.listen
    is_allowed = settings.listen_without_authentication
    if listen is None or is_allowed is None:
        return  # an invalid value was reported before
    host, _ = split_address(listen)
    if is_allowed or is_loopback(host):
        return
    reason = "there is no authentication"
    if settings.has("web_config_file"):
        if access is None:
            return  # the missing or unreadable file was reported before
        if access.authenticates:
            return
        reason = "web_config_file names no users (TLS alone keeps nobody out)"
    yield problem_of("listen", f"can be reached from other machines, and {reason}: {_ADVICE}")


def _check_retention(retention: Partial) -> Iterator[Problem]:
    """Report data that would be stored longer than the run to which the data belongs."""
    age_of_runs = retention.runs
    if not age_of_runs:
        return
    for key in ("scores", "lists", "evidence", "summaries"):
        age = getattr(retention, key)
        is_too_long = age is not None and age > age_of_runs
        # Only ages in the file are reported. A default may be too long, because the data is
        # deleted with its run anyway.
        if retention.has(key) and is_too_long:
            yield Problem(
                ("retention", key),
                "must not be longer than retention.runs, because it is deleted with its run: "
                "shorten it",
            )


def _check_receivers(settings: Partial) -> Iterator[Problem]:
    """Report names of receivers that occur twice, and unknown names in routes and fallbacks."""
    receivers = settings.receivers or ()
    names: list[tuple[KeyPath, str]] = []
    for index, receiver in enumerate(receivers):
        if receiver is not None:
            path = ("receivers", index, receiver.kind, "name")
            names.extend((path, name) for name in receiver.receiver_names)
    yield from find_duplicates(names, NAME_TAKEN.format("receiver"))
    # An invalid receiver is None, so its name is unknown. Then references cannot be checked.
    if settings.receivers is not None and None not in receivers:
        yield from _check_references(settings, receivers_by_name(receivers))


def _check_references(settings: Partial, receivers: Collection[str]) -> Iterator[Problem]:
    """Report names in routes and fallbacks that are not among the names of ``receivers``."""
    names: list[tuple[KeyPath, str]] = []
    for index, route in enumerate(settings.routes or ()):
        if route is not None:  # None is an invalid route
            for position, name in enumerate(route.receivers):
                names.append((("routes", index, "receivers", position), name))
    for name, fallback in (settings.fallbacks or {}).items():
        fallback_path = ("fallbacks", name)
        names += [(fallback_path, name), (fallback_path, fallback)]
        if name == fallback:
            yield Problem(
                fallback_path, "a receiver cannot be its own fallback: name another receiver"
            )
    choices = ", ".join(sorted(receivers)) or "none"
    for path, name in names:
        if name not in receivers:
            yield Problem(path, f"no receiver is called {name}: there are {choices}")


def _check_pings(settings: Partial) -> Iterator[Problem]:
    """Report pings that name unknown comparisons."""
    if settings.entries is None or None in settings.entries:
        return  # an invalid entry may define the comparison that is meant
    comparisons = comparison_names(map(vars, settings.entries))
    if None in comparisons:
        return  # the comparison with the invalid name may be meant
    for index, ping in enumerate(settings.pings or ()):
        if ping is None:
            continue
        # A ping without names is about all comparisons.
        for position, name in enumerate(ping.comparisons or ()):
            if name not in comparisons:
                path = ("pings", index, "comparisons", position)
                yield Problem(path, f"there is no comparison {name!r}")


def _arm_sources(comparison: Partial) -> dict[tuple[str, ...], SourceOptions]:
    """The valid sources of the baseline and of all candidates, by key path."""
    sources: dict[tuple[str, ...], SourceOptions | None] = {
        ("baseline",): comparison.baseline,
        ("candidate",): comparison.candidate,
    }
    for key, source in (comparison.candidates or {}).items():
        sources["candidates", key] = source
    return {path: source for path, source in sources.items() if source is not None}


def _check_comparison(comparison: Partial) -> Iterator[Problem]:
    """Yield all problems of one comparison. The key paths start at the comparison."""
    rules = [(index, rule) for index, rule in enumerate(comparison.rules or ()) if rule is not None]
    if comparison.has("unpaired"):
        yield from check_unpaired(comparison, utc_now())
    else:
        yield from _check_sources(comparison)
    yield from _check_schedule(comparison)
    yield from _check_metrics(comparison)
    yield from _check_late_relevance(comparison)
    yield from _check_temporal_floor(comparison)
    yield from _check_users(comparison)
    yield from find_duplicates(
        ((("rules", index, "alert"), rule.alert) for index, rule in rules),
        NAME_TAKEN.format("rule of this comparison"),
    )
    for index, rule in rules:
        yield from problems_within(("rules", index), check_rule(rule, comparison))


def _check_sources(comparison: Partial) -> Iterator[Problem]:
    """Report the keys for sources and users that are missing."""
    if not comparison.has("candidate", "candidates"):
        yield problem_of("candidate", MISSING)
    for key in ("baseline", "users"):
        if not comparison.has(key):
            yield problem_of(key, MISSING)


def _check_schedule(comparison: Partial) -> Iterator[Problem]:
    """Report keys that are missing, exclude each other or need another key, and bad durations."""
    # `has` says whether the file has the key, even with an invalid value. The attribute of an
    # invalid key is None.
    every = comparison.every
    offset = comparison.offset
    if not comparison.has("every", "cron"):
        yield Problem((), "has no schedule: give every (such as every: 15m) or cron")
        return
    if comparison.has("every") and comparison.has("cron"):
        yield problem_of("cron", "give either every or cron, not both")
        return
    if comparison.has("timezone") and not comparison.has("cron", "holidays", "only_between"):
        yield problem_of(
            "timezone",
            "applies only to cron, only_between and holidays. A period counts from 1970-01-01 "
            "00:00 UTC: remove timezone",
        )
    if comparison.has("offset") and comparison.has("cron"):
        yield problem_of(
            "offset",
            "is only for the key every, because a cron expression has its own times: remove it",
        )
    if offset and every and offset >= every:
        yield problem_of("offset", f"must be shorter than every: {format_duration(every)}")
    if every and every < SHORTEST_INTERVAL:
        yield problem_of("every", f"must be at least {format_duration(SHORTEST_INTERVAL)}")
        return  # the next checks need a valid interval
    has_times = every is not None or comparison.cron is not None
    # The time zone has a default, so it is None only if it is invalid.
    if has_times and comparison.timezone is not None:
        yield from _check_hours_and_deadline(comparison)


def _check_hours_and_deadline(comparison: Partial) -> Iterator[Problem]:
    """Report hours without a slot, and a deadline that is not shorter than the interval."""
    try:
        interval = to_schedule(comparison).interval
    except ValueError as error:  # only the hours can be the cause, see `schedule_of`
        yield problem_of("only_between", str(error))
        return
    if comparison.deadline and comparison.deadline >= interval:
        yield problem_of(
            "deadline",
            f"must be shorter than the time between two runs ({format_duration(interval)})",
        )


def _check_metrics(comparison: Partial) -> Iterator[Problem]:
    """Report metrics that occur twice, that need more than k items, or that lack an input."""
    k = comparison.k
    metrics = [
        (("metrics", index), parse(name)) for index, name in enumerate(comparison.metrics or ())
    ]
    arm_metrics = [
        (("arm_metrics", index), parse_arm_metric(name))
        for index, name in enumerate(comparison.arm_metrics or ())
    ]
    yield from find_duplicates(
        metrics, f"{LISTED_TWICE}, perhaps in another spelling: remove one of them"
    )
    yield from find_duplicates(arm_metrics, f"{LISTED_TWICE}: remove one of them")
    for path, metric in metrics:
        # A metric has a depth if it looks only at the first items of each list.
        is_too_deep = k is not None and metric.depth is not None and metric.depth > k
        if is_too_deep:
            yield Problem(
                path,
                f"looks at {metric.depth} items, but k cuts lists to {k}: raise k, or lower the "
                "depth",
            )
        yield from _check_metric_input(path, metric, comparison)
    for path, arm_metric in arm_metrics:
        yield from _check_metric_input(path, arm_metric, comparison)


def _check_late_relevance(comparison: Partial) -> Iterator[Problem]:
    """Report that the lists are not stored that later relevance is compared with."""
    if comparison.has("relevance") and lacks_stored_lists(comparison):
        yield problem_of(
            "keep_lists",
            "relevance that arrives later is compared with stored lists: remove this key",
        )


def _check_temporal_floor(comparison: Partial) -> Iterator[Problem]:
    """Report a temporal noise floor if lists cannot be compared with those of the last run.

    For this, rankwatch must store all lists, some users must be in each run, and rankwatch must
    pull each list from its source.
    """
    floor = comparison.noise_floor
    if floor is None or not floor.temporal:
        return
    if lacks_stored_lists(comparison):
        yield problem_of(
            "keep_lists",
            "a temporal noise floor compares with the lists of the last run: remove this key",
        )
    users = comparison.users
    sample = None if users is None else users.sample_size
    if sample is not None and not sample.fixed:
        yield problem_of(
            "noise_floor",
            "a temporal noise floor compares with the lists of the last run, but that run did not "
            "ask the rotating users: add fixed: ... to users.sample, or use {serve: true} or "
            "{retrain: SOURCE}",
        )
    sources = _list_sources(comparison).values()
    if not all(SOURCES[source.kind].is_pulled for source in sources):
        yield problem_of(
            "noise_floor",
            "temporal does not go with lists that are joined in files or in Spark: give serve or "
            "retrain",
        )


def _check_users(comparison: Partial) -> Iterator[Problem]:
    """Report users that the sources cannot list or join, and samples that cannot be drawn."""
    users = comparison.users
    if users is None:
        return
    baseline = comparison.baseline
    if baseline is not None:
        if users.all:
            listing_problem = all_users_problem(baseline)
            if listing_problem is not None:
                yield listing_problem
        joining_problem = joined_problem(_list_sources(comparison), users)
        if joining_problem is not None:
            yield joining_problem
    if users.all and comparison.pairs:
        yield problem_of(
            "pairs",
            "cannot be used with users.all, because each comparison would ask the users of its own "
            "baseline: name the users' file in users",
        )
    yield from _check_sample(users.sample_size, comparison)


def _check_sample(sample: SampleOptions | None, comparison: Partial) -> Iterator[Problem]:
    """Report a sample that never stops early, and settings that need fixed users."""
    if sample is not None and sample.stops_early and not _can_decide_early(comparison):
        yield Problem(("users", "sample"), _NEVER_CERTAIN_MESSAGE)
    if sample is None or not sample.fixed:
        for key in ("keep_scores", "keep_lists"):
            if getattr(comparison, key) is Keep.PANEL:
                yield problem_of(key, _NO_PANEL_MESSAGE)


def _list_sources(comparison: Partial) -> dict[tuple[str, ...], SourceOptions]:
    """The sources of the arms and of the second training (`noise_floor.retrain`), by key path."""
    sources = _arm_sources(comparison)
    floor = comparison.noise_floor
    if floor is not None and floor.retrain is not None:
        path = ("noise_floor",)
        sources[path] = floor.retrain
    return sources


def _can_decide_early(comparison: Partial) -> bool:
    """Whether the verdicts of all rules on metrics can be certain before all users are asked.

    Returns True if a rule is invalid, because it is not known what the rule judges.
    """
    if comparison.default_rules:
        return False  # default rules have no fixed limits
    all_options = comparison.rules or ()
    if not all(options and options.is_whole for options in all_options):
        return True
    metric_rules = []
    for options in all_options:
        if isinstance(options, MetricRuleOptions):
            # Any k will do, because it does not decide whether the scores are bounded.
            metric_rules.append(options.to_rule(k=1))
    # Only a rule with a fixed limit on bounded scores has ``thresholds``.
    return bool(metric_rules) and all(rule.thresholds for rule in metric_rules)


def _check_score_files(settings: Partial, comparisons: _Comparisons) -> Iterator[Problem]:
    """Report files of scores that would overwrite a file, or that would lack candidates."""
    # The files that must not be overwritten, each with a text that says what uses the file.
    used_files = _files_of_database(settings.database)
    score_files: list[tuple[KeyPath, str]] = []
    for index, comparison in comparisons:
        used_files |= _files_read(comparison)
        sink = comparison.scores_to
        if sink is None or sink.file is None:
            continue
        path: KeyPath = ("comparisons", index, *_SCORES_PATH)
        score_files.append((path, _comparable_path(sink.file.path)))
        if comparison.has("candidates"):
            yield Problem(
                path,
                "would contain the scores of one candidate only: give each candidate its own "
                "comparison, or remove scores_to",
            )
    yield from find_duplicates(
        score_files, "another comparison writes its scores to this file: name another file"
    )
    for path, file in score_files:
        if file in used_files:
            use = used_files[file]
            yield Problem(path, f"{use}, and would be overwritten: name another file")


def _files_of_database(url: SecretStr | None) -> dict[str, str]:
    """The files that are written for the database, each with a text that says what uses it."""
    file = None if url is None else file_of(parse_url(url))
    files: dict[str, str] = {}
    if file is None:
        return files
    # The path of the database may be a link. Then neither the link nor its file may be overwritten.
    for path in (_comparable_path(file), str(file.resolve())):
        for suffix in _DATABASE_SUFFIXES:
            files[f"{path}{suffix}"] = "is a file of the database"
    return files


def _files_read(comparison: Partial) -> dict[str, str]:
    """The files that the comparison reads, each with a text that says what uses it."""
    sources = {key: getattr(comparison, key) for key in _READ_KEYS}
    floor = comparison.noise_floor
    if floor is not None:
        sources["noise_floor"] = floor.retrain
    unpaired = comparison.unpaired
    if unpaired is not None:
        sources["unpaired.log"] = unpaired.log
        sources["unpaired.assignments"] = unpaired.assignments
    files = {}
    for key, source in sources.items():
        file = getattr(source, "file", None)
        if file is not None:
            files[_comparable_path(file.path)] = f"is the file that {key} is read from"
    return files


def _comparable_path(path: str | Path) -> str:
    """Return a text that is equal for all paths to the same file.

    Links of folders are followed. A link to the file is not followed, because writing replaces it.
    """
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - what may be a template


def _check_metric_input(
    path: KeyPath,
    metric: Metric | ArmMetric,
    comparison: Partial,
) -> Iterator[Problem]:
    """Report a metric if the comparison lacks what the metric needs.

    A metric may need the models' own scores from the sources, or stored lists, or another key of
    the comparison.
    """
    need = metric.need
    if need == Need.SCORES:
        arms_without_scores = []
        for keys, source in _arm_sources(comparison).items():
            if not source.has_scores:
                arms_without_scores.append(".".join(keys))
        if arms_without_scores:
            names = " and the ".join(arms_without_scores)
            yield Problem(
                path, f"needs the models' own scores: add scores: ... to the {names}'s source"
            )
    elif need == ArmNeed.KEEP_LISTS:
        # All lists are stored if the comparison has no key ``keep_lists``.
        if lacks_stored_lists(comparison):
            yield Problem(
                path,
                "compares with the lists of the last run, which are not stored: remove keep_lists",
            )
    elif need is not None and not comparison.has(need):
        yield Problem(path, f"needs {need}: add {_EXAMPLES[Need(need)]} to the comparison")
