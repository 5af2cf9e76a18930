"""What several settings must agree on.

Each check reads what could be read, so that all problems are found at once.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from monitor.arm_metrics import ArmMetric, ArmNeed, parse_arm_metric
from monitor.errors import MetricError
from monitor.metrics import Metric, Need, parse
from monitor.model.comparison import Keep
from monitor.model.rankings import Arm
from monitor.model.rules import SimilarityRule
from monitor.options import format_duration
from monitor.receivers import PingOptions, ReceiverOptions
from monitor.settings.addresses import is_loopback, split_address
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import RetentionOptions, Settings, receivers_by_name
from monitor.settings.excerpt import names_in
from monitor.settings.problems import (
    MISSING,
    NAME_TAKEN,
    TWICE,
    KeyPath,
    Problem,
    duplicates,
    within,
)
from monitor.settings.rule_checks import check_rule, lacks_lists
from monitor.settings.rule_options import RuleOptions
from monitor.settings.schedule import SHORTEST_INTERVAL, schedule_of
from monitor.settings.validation import Partial, validate
from monitor.settings.value_types import NO_NAME, is_name
from monitor.sources import SOURCES, SourceOptions, all_users_problem, joined_problem
from monitor.storage.database_url import file_of, parse_url
from monitor.web.access_options import AccessOptions

_MetricT = TypeVar("_MetricT", Metric, ArmMetric)

_ADVICE = (
    "use 127.0.0.1, or give a web_config_file with basic_auth_users or client_auth_type: "
    "RequireAndVerifyClientCert, or set listen_without_authentication: true"
)
_EXAMPLES = {
    Need.ITEM_WEIGHTS: "item_weights: {file: {path: ..., item: ..., weight: ...}}",
    Need.RELEVANCE: "relevance: {file: {path: ..., user: ..., items: ..., grades: ...}}",
}
_NO_PANEL = (
    "panel keeps the fixed users of users.sample, and there are none: add fixed: ... to "
    "users.sample, or write a number of users, such as 10000"
)
_NEVER_CERTAIN = (
    "stop_when: decided needs rules on metrics, all with below or above, on the mean of bounded "
    "scores or share_below(x): what is learned, or a percentile, is certain only when all are "
    "asked"
)
_FILE = ("scores_to", "file", "path")
_OF_A_DATABASE = ("", "-wal", "-shm", "-journal", ".lock")
_READ = ("baseline", "candidate", "users", "item_weights", "item_titles", "relevance")


def check_settings(
    raw: object, context: Mapping[str, object], access: AccessOptions | None
) -> Iterator[Problem]:
    """Problems between settings, whether or not each of them is right by itself."""
    settings = Partial(Settings, raw, context)
    comparisons = [
        (n, Partial(ComparisonOptions, item, context)) for n, item in settings.items("comparisons")
    ]
    yield from _listen(settings, access)
    yield from _retention(Partial(RetentionOptions, settings.raw.get("retention"), context))
    yield from _names(comparisons)
    yield from _scores_files(settings, comparisons)
    yield from _receivers(settings, context)
    yield from _pings(
        settings, context, {name for _, each in comparisons for _, name in names_in(each.raw)}
    )
    for n, comparison in comparisons:
        yield from within(("comparisons", n), _comparison(comparison, context))


def _names(comparisons: Sequence[tuple[int, Partial]]) -> Iterator[Problem]:
    """Names that occur twice, and candidates whose comparison would have no proper name."""
    own = [(("comparisons", n, "name"), each.get("name")) for n, each in comparisons]
    of_candidates = [
        (("comparisons", n, *path), name)
        for n, each in comparisons
        for path, name in names_in(each.raw)
        if len(path) > 1
    ]
    yield from duplicates([*own, *of_candidates], NAME_TAKEN.format("comparison"))
    for path, name in of_candidates:
        if name is not None and not is_name(name):
            yield Problem(path, f"becomes the name of a comparison, NAME.KEY, which {NO_NAME}")


def _listen(settings: Partial, access: AccessOptions | None) -> Iterator[Problem]:
    listen, has_file = settings.get("listen"), settings.has("web_config_file")
    if listen is None or settings.get("listen_without_authentication") is not False:
        return
    # Of a file that cannot be read nobody knows whether it keeps anybody out, and its own problems
    # are reported.
    is_unknown = has_file and access is None
    if (
        is_unknown
        or is_loopback(split_address(listen)[0])
        or (access is not None and access.authenticates)
    ):
        return
    missing = (
        "web_config_file names no users: TLS alone keeps nobody out"
        if has_file
        else "there is no authentication"
    )
    yield Problem(("listen",), f"can be reached from other machines, and {missing}: {_ADVICE}")


def _retention(retention: Partial) -> Iterator[Problem]:
    runs = retention.get("runs")
    for key in ("scores", "lists", "evidence", "summaries"):
        kept = retention.get(key)
        if retention.has(key) and runs is not None and kept is not None and kept > runs:
            yield Problem(
                ("retention", key), "must not be longer than retention.runs: it goes with its run"
            )


def _receivers(settings: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    """Names of receivers that occur twice, and names in routes and fallbacks that no receiver has."""
    entries = [
        validate(ReceiverOptions, item, context)[0] for _, item in settings.items("receivers")
    ]
    found = [(n, entry) for n, entry in enumerate(entries) if entry is not None]
    named = (
        (("receivers", n, entry.kind, "name"), name)
        for n, entry in found
        for name in entry.receiver_names
    )
    yield from duplicates(named, NAME_TAKEN.format("receiver"))
    if None not in entries:
        yield from _references(settings, receivers_by_name([entry for _, entry in found]))


def _references(settings: Partial, known: Collection[str]) -> Iterator[Problem]:
    named: list[tuple[KeyPath, object]] = []
    for n, item in settings.items("routes"):
        found = item.get("receivers") if isinstance(item, dict) else None
        named.extend(
            (("routes", n, "receivers", m), name)
            for m, name in enumerate(found if isinstance(found, list) else ())
        )
    fallbacks = settings.get("fallbacks") or {}
    named.extend(
        (("fallbacks", name), each) for name, to in fallbacks.items() for each in (name, to)
    )
    choices = f"there are {', '.join(sorted(known))}" if known else "there are none"
    for path, name in named:
        if isinstance(name, str) and name not in known:
            yield Problem(path, f"no receiver is called {name}: {choices}")
    yield from (
        Problem(("fallbacks", name), "cannot stand in for itself")
        for name, to in fallbacks.items()
        if name == to
    )


def _pings(
    settings: Partial, context: Mapping[str, object], known: set[str | None]
) -> Iterator[Problem]:
    for n, item in settings.items("pings"):
        if (entry := validate(PingOptions, item, context)[0]) is not None:
            for place, name in enumerate(entry.comparisons or ()):
                if name not in known and None not in known:
                    yield Problem(
                        ("pings", n, "comparisons", place), f"there is no comparison {name!r}"
                    )


def _arms(comparison: Partial) -> dict[tuple[str, ...], SourceOptions]:
    found: dict[tuple[str, ...], SourceOptions | None] = {
        (arm,): comparison.get(arm) for arm in Arm
    }
    found |= {
        ("candidates", key): each for key, each in (comparison.get("candidates") or {}).items()
    }
    return {path: each for path, each in found.items() if each is not None}


def _comparison(comparison: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    rules = [(n, Partial(RuleOptions, item, context)) for n, item in comparison.items("rules")]
    arms = ("candidate", "candidates")
    if comparison.raw and not (comparison.has(*arms) or comparison.misspells(*arms)):
        yield Problem(("candidate",), MISSING)
    yield from _schedule(comparison)
    yield from _metrics(comparison)
    yield from _lists_of_last_run(comparison)
    yield from _outputs(comparison)
    yield from _users(comparison)
    yield from duplicates(
        ((("rules", n, "alert"), rule.get("alert")) for n, rule in rules),
        NAME_TAKEN.format("rule of this comparison"),
    )
    for n, rule in rules:
        yield from within(("rules", n), check_rule(rule, comparison))


def _schedule(comparison: Partial) -> Iterator[Problem]:
    every, cron, zone = (comparison.get(key) for key in ("every", "cron", "timezone"))
    if not comparison.has("every", "cron"):
        yield Problem((), "when does it run? give every (such as every: 15m) or cron")
        return
    if comparison.has("every") and comparison.has("cron"):
        yield Problem(("cron",), "give either every or cron, not both")
        return
    if comparison.has("timezone") and not comparison.has("cron", "holidays", "only_between"):
        yield Problem(
            ("timezone",),
            "belongs to cron, only_between and holidays; every counts from 1970-01-01 00:00 UTC",
        )
    if comparison.has("offset") and not comparison.has("every"):
        yield Problem(("offset",), "belongs to every; cron says when by itself")
    offset = comparison.get("offset")
    if offset is not None and every is not None and offset >= every:
        yield Problem(("offset",), f"must be shorter than every: {format_duration(every)}")
    if every is not None and every < SHORTEST_INTERVAL:
        yield Problem(("every",), "must be at least 1s")
        return
    if (every is None and cron is None) or zone is None:
        return
    deadline = comparison.get("deadline")
    try:
        interval = schedule_of(every, cron, zone, offset, comparison.get("only_between")).interval
    except ValueError as error:
        yield Problem(("only_between",), str(error))
        return
    if deadline is not None and deadline >= interval:
        yield Problem(
            ("deadline",),
            f"must be shorter than the time between two runs ({format_duration(interval)})",
        )


def _metrics(comparison: Partial) -> Iterator[Problem]:
    """Metrics and arm metrics that are there twice, look too deep, or lack what they need."""
    k = comparison.get("k")
    metrics = [(("metrics", n), _found(parse, text)) for n, text in comparison.items("metrics")]
    arm_metrics = [
        (("arm_metrics", n), _found(parse_arm_metric, text))
        for n, text in comparison.items("arm_metrics")
    ]
    yield from duplicates(metrics, f"{TWICE}, perhaps in another spelling")
    yield from duplicates(arm_metrics, TWICE)
    for path, metric in metrics:
        if metric is not None and metric.depth is not None and k is not None and metric.depth > k:
            yield Problem(path, f"looks at {metric.depth} items, and lists are cut to k: {k}")
    for path, measure in (*metrics, *arm_metrics):
        yield from _check_metric_input(path, measure, comparison)


def _users(comparison: Partial) -> Iterator[Problem]:
    users, baseline = comparison.get("users"), comparison.get("baseline")
    if (
        users is not None
        and users.all
        and baseline is not None
        and (problem := all_users_problem(baseline))
    ):
        yield Problem(("users", "all"), problem)
    if users is not None and users.all and comparison.get("pairs"):
        yield Problem(
            ("pairs",),
            "would ask other users than those of the baseline: name in users where these stand",
        )
    lists, floor = _arms(comparison), comparison.get("noise_floor")
    lists |= (
        {("noise_floor",): floor.retrain} if floor is not None and floor.retrain is not None else {}
    )
    if users is not None and baseline is not None and (found := joined_problem(lists, users)):
        yield Problem(*found)
    if (
        floor is not None
        and floor.temporal
        and not all(SOURCES[each.kind].is_pulled for each in lists.values())
    ):
        yield Problem(
            ("noise_floor",), "temporal needs lists that are pulled: give serve or retrain"
        )
    size, rules = (
        users and users.sample_size,
        [each.to_rule(1) for each in comparison.get("rules") or () if each.metric],
    )
    limits = [rule.thresholds for rule in rules if isinstance(rule, SimilarityRule)]
    if (
        size is not None
        and size.stops_early
        and (comparison.get("default_rules") or not limits or not all(limits))
    ):
        yield Problem(("users", "sample"), _NEVER_CERTAIN)
    has_fixed = size is not None and size.fixed
    for key in ("keep_scores", "keep_lists"):
        if comparison.get(key) is Keep.PANEL and users is not None and not has_fixed:
            yield Problem((key,), _NO_PANEL)


def _scores_files(
    settings: Partial, comparisons: Sequence[tuple[int, Partial]]
) -> Iterator[Problem]:
    files = [
        (("comparisons", n, *_FILE), file)
        for n, each in comparisons
        if (file := _scores_file(each)) is not None
    ]
    yield from duplicates(
        files, "another comparison writes its scores to this file: paths must differ"
    )
    url = settings.get("database")
    if url is not None and (database := file_of(parse_url(url))) is not None:
        taken = {
            f"{named}{end}"
            for named in (_place(database), database.resolve())
            for end in _OF_A_DATABASE
        }
        lost = "is a file of the database, which would be lost: name another"
        yield from (Problem(path, lost) for path, file in files if file in taken)


def _scores_file(comparison: Partial) -> str | None:
    sink = comparison.get("scores_to")
    return None if sink is None or sink.file is None else _place(sink.file.path)


def _place(path: str | Path) -> str:
    """The file itself, however the way to it is written.

    A link is no other file here, since it would be replaced itself.
    """
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - what may be a template


def _outputs(comparison: Partial) -> Iterator[Problem]:
    path, floor = _scores_file(comparison), comparison.get("noise_floor")
    if path is not None and comparison.has("candidates"):
        yield Problem(
            _FILE,
            (
                "would hold the scores of one candidate alone: give each its own comparison, or "
                "remove scores_to"
            ),
        )
    read = {key: comparison.get(key) for key in _READ} | {
        "noise_floor": None if floor is None else floor.retrain
    }
    for key, source in read.items():
        file = getattr(source, "file", None)
        if path is not None and file is not None and _place(file.path) == path:
            yield Problem(
                _FILE, f"is the file that {key} is read from, which would be lost: name another"
            )


def _lists_of_last_run(comparison: Partial) -> Iterator[Problem]:
    """Lists that something needs and that are not kept, or are those of other users."""
    if comparison.has("relevance") and lacks_lists(comparison):
        yield Problem(
            ("keep_lists",),
            "relevance that arrives later is held against kept lists: remove this key",
        )
    floor = comparison.get("noise_floor")
    if floor is None or not floor.temporal:
        return
    if lacks_lists(comparison):
        yield Problem(
            ("keep_lists",),
            "a temporal noise floor compares with the lists of the last run: remove this key",
        )
    users = comparison.get("users")
    if users is not None and (size := users.sample_size) is not None and not size.fixed:
        yield Problem(
            ("noise_floor",),
            "a temporal noise floor compares with the lists of the last run, and rotating users "
            "were not asked then: add fixed: ... to users.sample, or take {serve: true} or "
            "{retrain: SOURCE}",
        )


def _found(parser: Callable[[str], _MetricT], text: object) -> _MetricT | None:
    try:
        return parser(text) if isinstance(text, str) else None
    except MetricError:
        return None


def _check_metric_input(
    path: KeyPath, metric: Metric | ArmMetric | None, comparison: Partial
) -> Iterator[Problem]:
    need = None if metric is None else metric.need
    if need == Need.SCORES:
        arms = [
            ".".join(keys) for keys, source in _arms(comparison).items() if not source.has_scores
        ]
        if arms:
            yield Problem(
                path,
                (
                    "needs the models' own scores: add scores: ... to the "
                    f"{' and the '.join(arms)}'s source"
                ),
            )
    elif need == ArmNeed.KEEP_LISTS:
        if lacks_lists(comparison):
            yield Problem(path, "compares with the lists of the last run: remove keep_lists")
    elif need is not None and not comparison.has(need):
        yield Problem(path, f"needs {need}: add {_EXAMPLES[Need(need)]} to the comparison")
