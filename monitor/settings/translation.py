"""Turns the options of the file into comparisons, schedules and the notification policy."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from operator import methodcaller
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import BaseModel, SecretStr

from monitor.alerts.incidents import GROUP_FOR
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.alerts.state_machine import INSTALLATION_LABEL
from monitor.boundary.options import NOT_IN_HASH
from monitor.measures.arm_metrics import ArmNeed, parse_arm_metric
from monitor.measures.metrics import parse
from monitor.model.rules import Comparison, JudgingPlan, Keep, MeasuringPlan, Rule
from monitor.model.statistics import NoiseFloor
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings, receivers_by_name
from monitor.settings.default_rules import arm_metrics_of, rules_of
from monitor.settings.runbooks import runbook_of
from monitor.settings.schedule import Schedule, schedule_of

_DEADLINE = timedelta(minutes=10)
_DEADLINE_SHARE = 0.8

# The settings of a comparison that influence its scores. `config_hash` adds the metrics.
HASHED_KEYS = (
    "k",
    "baseline",
    "candidate",
    "users",
    "seed",
    "item_weights",
    "relevance",
    "catalogue_size",
    "noise_floor",
    "reference",
    "unpaired",
)
_SOURCE_KEYS = ("baseline", "candidate", "noise_floor")
_SQLITE_URL = re.compile("^sqlite:/+")


def to_schedule(options: ComparisonOptions) -> Schedule:
    """The schedule of the comparison."""
    return schedule_of(
        options.every, options.cron, options.timezone, options.offset, options.only_between
    )


def policy_of(settings: Settings) -> NotificationPolicy:
    """Return the notification policy.

    A receiver may have several servers (peers). Then its name in the file means all its peers.
    """
    peers = receivers_by_name(settings.receivers)
    fallbacks: dict[str, str] = {}
    for name, fallback in settings.fallbacks.items():
        first_peer_of_fallback = peers[fallback][0]  # one server is enough for a fallback
        for peer in peers[name]:
            fallbacks[peer] = first_peer_of_fallback
    # The comparison and the name of each alert that notifies nobody.
    muted: set[tuple[str, str]] = set()
    intervals: dict[str, timedelta] = {}
    for comparison in settings.comparisons:
        intervals[comparison.name] = to_schedule(comparison).longest
        for rule in _to_rules(comparison):
            if rule.is_dry_run:
                muted.add((comparison.name, rule.alert))
    return NotificationPolicy(
        routes=tuple(route.with_peers(peers) for route in settings.routes),
        windows=settings.maintenance,
        muted=frozenset(muted),
        fallbacks=fallbacks,
        shows_items=settings.privacy.shows_items,
        intervals=intervals,
    )


def to_comparison(options: ComparisonOptions) -> Comparison:
    """The comparison as the pipeline needs it. Its sources are opened elsewhere."""
    return Comparison(
        name=options.name,
        family=options.family,
        arms=options.arms,
        config_hash=config_hash(options),
        measuring=_measuring_plan(options),
        judging=_judging_plan(options),
        item_url=options.item_url,
    )


def comparisons_of(settings: Settings) -> dict[str, Comparison]:
    """Return all comparisons by name."""
    return {
        options.name: complete_comparison(options, settings) for options in settings.comparisons
    }


def complete_comparison(
    options: ComparisonOptions,
    settings: Settings,
    selectors: Mapping[str, tuple[str, ...]] | None = None,
) -> Comparison:
    """Return the comparison with what its rules get from the settings of the installation.

    These are the label of the installation, the URLs of runbooks, and whether items are shown.
    ``selectors`` are those matchers of the configuration that only its alerts can match.
    """
    comparison = to_comparison(options)
    label = {}
    if settings.installation is not None:
        label = {INSTALLATION_LABEL: settings.installation}
    rules = []
    for rule in comparison.judging.rules:
        runbook_url = rule.runbook_url or settings.runbook_url(runbook_of(rule))
        labels = {**label, **rule.labels}
        rules.append(replace(rule, labels=labels, runbook_url=runbook_url))
    judging = replace(
        comparison.judging,
        rules=tuple(rules),
        shows_items=settings.privacy.shows_items,
        selectors=selectors or {},
    )
    return replace(comparison, judging=judging)


def _measuring_plan(options: ComparisonOptions) -> MeasuringPlan:
    """Return how the comparison is measured.

    By default the deadline is a share of the interval, but at most 10 minutes.
    """
    deadline = options.deadline
    if deadline is None:
        deadline = min(_DEADLINE, to_schedule(options).interval * _DEADLINE_SHARE)
    relevance_within = None
    relevance_after = timedelta(0)
    if options.relevance is not None:
        relevance_within = options.relevance.within
        relevance_after = options.relevance.after or timedelta(0)
    noise_floor = None
    if options.noise_floor is not None:
        noise_floor = NoiseFloor(options.noise_floor.kind)
    unpaired = None
    if options.unpaired is not None:
        unpaired = options.unpaired.to_plan()
    return MeasuringPlan(
        k=options.k,
        metrics=options.metrics,
        arm_metrics=arm_metrics_of(options),
        sample=options.users.sample_size,
        seed=options.seed,
        max_segment_values=options.max_segment_values,
        deadline=deadline,
        noise_floor=noise_floor,
        catalogue_size=options.catalogue_size,
        relevance_within=relevance_within,
        relevance_after=relevance_after,
        keep_scores=options.keep_scores,
        keep_lists=choose_kept_lists(options),
        evidence_users=options.evidence_users,
        unpaired=unpaired,
    )


def _judging_plan(options: ComparisonOptions) -> JudgingPlan:
    """Return how the comparison is judged. Holidays are periods in the comparison's time zone."""
    schedule = to_schedule(options)
    zone = ZoneInfo(options.timezone)
    # If runs are rare, an incident must wait longer for further alerts.
    default_group_for = max(GROUP_FOR, 3 * schedule.longest)
    return JudgingPlan(
        rules=_to_rules(options),
        min_paired_share=options.min_paired_share,
        runs_per_false_alert=options.false_alarm_every / schedule.interval,
        ignored=options.conditions.ignored,
        stale_after=options.conditions.stale.after,
        group_for=options.group_for or default_group_for,
        by_model=options.reference == "model_version",
        holidays=tuple(_to_period(first, last, zone) for first, last in options.holidays),
    )


def _to_period(first: date, last: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the begin of the day ``first`` and the end of the day ``last`` in UTC."""
    begin = datetime.combine(first, time(), zone)
    end = datetime.combine(last + timedelta(days=1), time(), zone)
    return begin.astimezone(UTC), end.astimezone(UTC)


def _to_rules(options: ComparisonOptions) -> tuple[Rule, ...]:
    """The rules on drift, and then the rules on conditions.

    A rule on a condition is left out if a rule on drift has the same name. If a rule does not set
    `dry_run`, the value of the comparison is used. Each rule also has the comparison's labels.
    """
    rules: list[Rule] = []
    for rule_options in rules_of(options):
        is_dry_run = rule_options.dry_run
        if is_dry_run is None:
            is_dry_run = options.dry_run
        labels = {**options.labels, **rule_options.labels}
        rule = rule_options.to_rule(options.k)
        rules.append(replace(rule, is_dry_run=is_dry_run, labels=labels))
    names = {rule.alert for rule in rules}
    is_unpaired = options.unpaired is not None
    for condition in options.conditions.to_rules(is_unpaired=is_unpaired):
        if condition.alert not in names:
            rules.append(replace(condition, is_dry_run=options.dry_run, labels=options.labels))
    return tuple(rules)


def choose_kept_lists(options: ComparisonOptions) -> Keep | int:
    """Return which users' lists are stored: as configured, or the default.

    An integer is the number of users whose lists are stored.

    By default all lists are stored if relevance arrives later, or if a metric or the noise floor
    needs the lists of the last run. Otherwise no lists are stored.
    """
    if options.keep_lists is not None:
        return options.keep_lists
    if options.relevance is not None:
        return Keep.ALL
    if options.noise_floor is not None and options.noise_floor.temporal:
        return Keep.ALL
    for name in arm_metrics_of(options):
        if parse_arm_metric(name).need is ArmNeed.KEEP_LISTS:
            return Keep.ALL
    return Keep.NONE


def config_hash(options: ComparisonOptions) -> str:
    """Return the SHA-256 hash of all settings that influence scores.

    The hash ignores rules, schedule, storage, and keys marked `NOT_IN_HASH`. It also ignores
    secrets, but includes URLs without user and password.

    The hash also ignores folders: the common folder of the arms' files, and the folder of each
    other file. So it stays the same if the files of both arms are moved together.
    """
    arm_settings: dict[str, Any] = {}  # their paths lose the same folder
    metrics = map(parse, options.metrics)
    other_settings: dict[str, Any] = {"metrics": sorted(map(str, metrics))}
    for name in HASHED_KEYS:
        value = getattr(options, name)
        if value is None:
            continue
        if name in _SOURCE_KEYS:
            arm_settings[name] = _hashed_value(value)
        else:
            other_settings |= _without_folder({name: _hashed_value(value)})
    to_hash = _without_folder(arm_settings) | other_settings
    encoded = json.dumps(to_hash, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(encoded.encode()).hexdigest()


def _without_folder(part: dict[str, Any]) -> dict[str, Any]:
    """A copy of the part in which local paths are relative to their common folder."""
    folders = []

    # Returns a path without the prefix of a SQLite URL, and any other text unchanged. Collects the
    # folder of an absolute path.
    def read_path(value: str) -> str:
        path = _SQLITE_URL.sub("/", value)
        # The folder of a template ends before the first placeholder.
        folder = path.partition("{")[0].rpartition("/")[0]
        if folder.startswith("/"):
            folders.append(folder)
        return path

    paths = _change_texts(part, read_path)
    prefix = f"{os.path.commonpath(folders)}/" if folders else ""
    relative: dict[str, Any] = _change_texts(paths, methodcaller("removeprefix", prefix))
    return relative


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy of the JSON value in which each text is changed, except for keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _change_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_change_texts(item, change) for item in value]
    return value


def _hashed_value(value: object) -> object:
    """Return the part of a setting's value that is hashed, in types that JSON has.

    Secrets in mappings are left out.
    """
    if isinstance(value, BaseModel):
        return _hashed_model(value)
    if isinstance(value, Mapping):
        values: dict[str, object] = {}
        for key, item in value.items():
            if not isinstance(item, SecretStr):
                values[str(key)] = _hashed_value(item)
        return values
    if isinstance(value, list | tuple):
        return [_hashed_value(item) for item in value]
    if isinstance(value, str | int | float | bool | None):
        return value
    return str(value)


def _hashed_model(model: BaseModel) -> dict[str, object]:
    """Return the settings of a model that are hashed, in types that JSON has.

    Settings that are None are left out. So the hash stays the same if a new version of rankwatch
    adds settings. Secrets are left out, except ``url``, which is hashed without user and password.
    """
    values: dict[str, object] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value is None or NOT_IN_HASH in field.metadata:
            continue
        if not isinstance(value, SecretStr):
            values[name] = _hashed_value(value)
        elif name == "url":
            url = urlsplit(value.get_secret_value())
            _, _, host = url.netloc.rpartition("@")
            values[name] = url._replace(netloc=host).geturl()
    return values
