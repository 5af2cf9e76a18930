"""From options to what the program runs on: `Comparison` with its hash, its schedule, and the notification policy."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import BaseModel, SecretStr

from monitor.alerts.incidents import GROUP_FOR
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.arm_metrics import ArmNeed, parse_arm_metric
from monitor.metrics import parse
from monitor.model.comparison import Comparison, JudgingPlan, Keep, MeasuringPlan
from monitor.model.rules import Rule
from monitor.model.statistics import NoiseFloor
from monitor.options import NOT_IN_HASH
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings, receivers_by_name
from monitor.settings.default_rules import arm_metrics_of, rules_of
from monitor.settings.schedule import Schedule, schedule_of
from monitor.settings.value_types import parse_days

_DEADLINE = timedelta(minutes=10)
_DEADLINE_SHARE = 0.8

_HASHED = (
    *(
        "k",
        "baseline",
        "candidate",
        "users",
        "seed",
        "item_weights",
        "relevance",
        "catalogue_size",
        "noise_floor",
    ),
    "reference",
)
_ARMS = ("baseline", "candidate", "noise_floor")
_FOLDER = re.compile(r'"(/[^"{]*)/')


def to_schedule(options: ComparisonOptions) -> Schedule:
    """When the comparison runs."""
    return schedule_of(
        options.every, options.cron, options.timezone, options.offset, options.only_between
    )


def policy_of(settings: Settings) -> NotificationPolicy:
    """The notification policy.

    A name that stands for several peers of one receiver means all of them.
    """
    peers = receivers_by_name(settings.receivers)
    fallbacks = settings.fallbacks.items()
    return NotificationPolicy(
        routes=tuple(route.to_route(peers) for route in settings.routes),
        windows=tuple(each.to_window() for each in settings.maintenance),
        muted=frozenset(
            (each.name, rule.alert)
            for each in settings.comparisons
            for rule in _rules(each)
            if rule.is_dry_run
        ),
        fallbacks={
            peer: peers[to][0]
            for name, to in fallbacks
            for peer in peers.get(name, ())
            if to in peers
        },
        group_for={each.name: _group_for(each) for each in settings.comparisons},
        shows_items=settings.privacy.items == "shown",
    )


def to_comparison(options: ComparisonOptions) -> Comparison:
    """The comparison as the pipeline runs it, without sources."""
    return Comparison(
        name=options.name,
        family=options.family,
        arms=options.arms,
        config_hash=config_hash(options),
        measuring=_measuring_plan(options),
        judging=_judging_plan(options),
        item_url=options.item_url,
    )


def _measuring_plan(options: ComparisonOptions) -> MeasuringPlan:
    return MeasuringPlan(
        k=options.k,
        metrics=options.metrics,
        arm_metrics=arm_metrics_of(options),
        sample=options.users.sample_size,
        seed=options.seed,
        max_segment_values=options.max_segment_values,
        deadline=options.deadline
        or min(_DEADLINE, to_schedule(options).interval * _DEADLINE_SHARE),
        noise_floor=NoiseFloor(options.noise_floor.kind) if options.noise_floor else None,
        catalogue_size=options.catalogue_size,
        relevance_within=options.relevance.within if options.relevance else None,
        relevance_after=(options.relevance and options.relevance.after) or timedelta(0),
        keep_scores=options.keep_scores,
        keep_lists=kept_lists(options),
        evidence_users=options.evidence_users,
    )


def _group_for(options: ComparisonOptions) -> timedelta:
    return options.group_for or max(GROUP_FOR, 3 * to_schedule(options).longest)


def _judging_plan(options: ComparisonOptions) -> JudgingPlan:
    schedule = to_schedule(options)
    return JudgingPlan(
        rules=_rules(options),
        min_paired_share=options.min_paired_share,
        runs_a_false_page=options.false_alarm_every / schedule.interval,
        ignored=options.conditions.ignored,
        stale_after=options.conditions.stale.after,
        group_for=_group_for(options),
        by_model=options.reference == "model_version",
        holidays=tuple(
            _period(days, ZoneInfo(options.timezone)) for days in map(parse_days, options.holidays)
        ),
    )


def _period(days: tuple[date, date], zone: ZoneInfo) -> tuple[datetime, datetime]:
    first, after = days[0], days[1] + timedelta(days=1)
    start, end = (datetime.combine(day, time(), zone).astimezone(UTC) for day in (first, after))
    return start, end


def _rules(options: ComparisonOptions) -> tuple[Rule, ...]:
    """Rules on drift, then those on conditions whose name is free.

    What a rule leaves open the comparison decides: dry runs.
    """
    on_drift = [(rule.dry_run, rule.to_rule(options.k)) for rule in rules_of(options)]
    taken = {rule.alert for _, rule in on_drift}
    on_conditions = [
        (None, rule) for rule in options.conditions.to_rules() if rule.alert not in taken
    ]
    return tuple(
        replace(rule, is_dry_run=options.dry_run if own is None else own)
        for own, rule in (*on_drift, *on_conditions)
    )


def kept_lists(options: ComparisonOptions) -> Keep | int:
    """Whose lists are stored: as given, else all where relevance is to come or something needs the lists of the last run."""
    if options.keep_lists is not None:
        return options.keep_lists
    is_temporal = options.noise_floor is not None and bool(options.noise_floor.temporal)
    is_compared = is_temporal or any(
        parse_arm_metric(name).need is ArmNeed.KEEP_LISTS for name in arm_metrics_of(options)
    )
    return Keep.ALL if options.relevance is not None or is_compared else Keep.NONE


def config_hash(options: ComparisonOptions) -> str:
    """SHA-256 over everything that changes what a score means.

    Not where files lie (of the arms' files their common folder is left out), nor rules, schedule,
    storage and `NOT_IN_HASH`. Of secrets only URLs enter, without user and password."""
    measured: dict[str, Any] = {"metrics": sorted(str(parse(metric)) for metric in options.metrics)}
    measured |= {
        name: _meaning(found) for name in _HASHED if (found := getattr(options, name)) is not None
    }
    arms = _without_folder({name: measured.pop(name) for name in _ARMS if name in measured})
    others = {name: _without_folder({name: found})[name] for name, found in measured.items()}
    return hashlib.sha256(
        json.dumps({**arms, **others}, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _without_folder(part: dict[str, Any]) -> dict[str, Any]:
    """The same with local paths that begin behind the folder in which all of its files lie."""
    text = re.sub('"sqlite:/+', '"/', json.dumps(part))
    folders = _FOLDER.findall(text)
    folder = os.path.commonpath(folders) if folders else ""
    found: dict[str, Any] = json.loads(text.replace(f'"{folder}/', '"') if folder else text)
    return found


def _meaning(value: object) -> object:
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        named = (
            (name, getattr(value, name))
            for name, field in fields.items()
            if NOT_IN_HASH not in field.metadata
        )
        # A setting that is added later and left out must not change the hash of what stood before:
        # hence no nulls.
        return {
            name: _meaning(found)
            for name, found in named
            if found is not None and (name == "url" or not isinstance(found, SecretStr))
        }
    if isinstance(value, SecretStr):
        parts = urlsplit(value.get_secret_value())
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if isinstance(value, Mapping):
        return {
            str(key): _meaning(found)
            for key, found in value.items()
            if not isinstance(found, SecretStr)
        }
    if isinstance(value, list | tuple):
        return [_meaning(found) for found in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
