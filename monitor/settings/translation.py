"""From options to what the program runs on: `Comparison`, its schedule, and the hash over what its scores mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from monitor.alerts import GROUP_FOR, NotificationPolicy
from monitor.metrics import parse
from monitor.model import (
    Comparison,
    CoverageRule,
    CoverageShare,
    DerivedMetric,
    Direction,
    FixedLimit,
    LearnedLimit,
    Learning,
    Limit,
    Rule,
    SampleSize,
    SimilarityRule,
    StandstillRule,
    Statistic,
)
from monitor.options import NOT_IN_HASH
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings
from monitor.settings.default_rules import arm_metrics_of, needs_last_lists, rules_of
from monitor.settings.judged_metric import parse_judged_metric
from monitor.settings.notification_options import to_policy
from monitor.settings.rule_options import RuleOptions
from monitor.settings.schedule import Cron, Every, Schedule
from monitor.sources import SampleOptions

SHORTEST_INTERVAL = timedelta(seconds=1)
"""The least time between two runs."""

_DEADLINE = timedelta(minutes=10)
_DEADLINE_SHARE = 0.8


def to_schedule(options: ComparisonOptions) -> Schedule:
    """When the comparison runs."""
    return schedule_of(options.every, options.cron, options.timezone)


def schedule_of(every: timedelta | None, cron: str | None, zone: str) -> Schedule:
    """The schedule of either a period or a cron expression."""
    if every is not None:
        return Every(every)
    return Cron.parse(cron or "", zone)


def policy_of(settings: Settings) -> NotificationPolicy:
    """How the alerts of all comparisons are told."""
    return to_policy(
        settings.routes,
        settings.maintenance,
        settings.fallbacks,
        settings.receivers,
        muted=((each.name, rule.alert) for each in settings.comparisons for rule in _to_rules(each) if rule.is_dry_run),
        schedule_of=Cron.parse,
    )


def to_comparison(options: ComparisonOptions) -> Comparison:
    """What the pipeline runs on, without sources."""
    return Comparison(
        name=options.name,
        k=options.k,
        metrics=options.metrics,
        rules=_to_rules(options),
        sample=None if options.users.sample is None else sample_size(options.users.sample),
        seed=options.seed,
        deadline=options.deadline or min(_DEADLINE, to_schedule(options).interval * _DEADLINE_SHARE),
        min_paired_share=options.min_paired_share,
        max_segment_values=options.max_segment_values,
        evidence_users=options.evidence_users,
        keep_scores=options.keep_scores,
        config_hash=config_hash(options),
        arm_metrics=arm_metrics_of(options),
        catalogue_size=options.catalogue_size,
        keep_lists=keeps_lists(options),
        runs_a_false_page=options.false_alarm_every / to_schedule(options).interval,
        relevance_within=options.relevance.within if options.relevance else None,
        noise_floor=options.noise_floor.kind if options.noise_floor else None,
        group_for=options.group_for or max(GROUP_FOR, 3 * to_schedule(options).longest),
        relevance_after=(options.relevance and options.relevance.after) or timedelta(0),
        ignored=options.conditions.ignored,
        stale_after=options.conditions.stale.after,
    )


def _to_rules(options: ComparisonOptions) -> tuple[Rule, ...]:
    """Rules on drift, then those on conditions whose name is free; dry runs where the rule, or else the comparison, says so."""
    on_drift = [(rule.dry_run, to_rule(rule, options.k)) for rule in rules_of(options)]
    taken = {rule.alert for _, rule in on_drift}
    on_conditions = [(None, rule) for rule in options.conditions.to_rules() if rule.alert not in taken]
    return tuple(replace(rule, is_dry_run=options.dry_run if own is None else own) for own, rule in (*on_drift, *on_conditions))


def to_rule(options: RuleOptions, k: int) -> Rule:
    """One rule on lists of at most k items, with its side, threshold and point of recovery made explicit."""
    common: dict[str, Any] = {
        "alert": options.alert,
        "segments": options.segments,
        "for_runs": options.for_runs,
        "resolve_after": options.resolve_after,
        "min_users": options.min_users,
        "severity": options.severity,
        "runbook_url": options.runbook_url,
        "labels": dict(options.labels),
    }
    if options.frozen is not None:
        return StandstillRule(arm=options.frozen, **common)
    if options.metric is None:
        return CoverageRule(share=CoverageShare.parse(options.coverage or ""), limit=_limit(options), **common)
    metric = options.metric if options.over_floor is None else DerivedMetric.OVER_FLOOR.of(options.metric)
    return SimilarityRule(
        metric=metric,
        statistic=Statistic.parse(options.statistic),
        limit=_limit(options),
        scores=parse_judged_metric(metric).bounds(k),
        **common,
    )


def _limit(options: RuleOptions) -> Limit:
    """The limit that is learned, or the side in breach, the threshold there, and where it resolves."""
    if options.learned is not None:
        direction, last = _watched(options)
        learning = Learning.TREND if options.learned == "trend" else Learning.DROP
        return LearnedLimit(learning=learning, direction=direction, value=last)
    if options.below is not None:
        end = options.below if options.resolve_above is None else options.resolve_above
        return FixedLimit(direction=Direction.BELOW, value=options.below, resolve_at=end)
    above = (options.above if options.over_floor is None else options.over_floor) or 0.0
    end = above if options.resolve_below is None else options.resolve_below
    return FixedLimit(direction=Direction.ABOVE, value=above, resolve_at=end)


def _watched(options: RuleOptions) -> tuple[Direction, float]:
    """The side that a rule that learns watches, and the value that the statistic never passes there."""
    if options.coverage is not None:
        return (Direction.ABOVE, 1.0) if options.watch == "drift" else (Direction.BELOW, 0.0)
    quantity, floor = parse_judged_metric(options.metric or ""), Statistic.parse(options.statistic).floor
    is_above = (quantity.drifts is Direction.ABOVE) ^ (floor is not None) ^ (options.watch == "improvement")
    low, high = (0.0, 1.0) if floor is not None else quantity.bounds(None)
    return (Direction.ABOVE, high) if is_above else (Direction.BELOW, low)


def sample_size(sample: int | SampleOptions) -> SampleSize:
    """How many users of each kind; a bare number means so many users, the same each run."""
    if isinstance(sample, int):
        return SampleSize(fixed=sample)
    return SampleSize(fixed=sample.fixed, rotating=sample.rotating)


def keeps_lists(options: ComparisonOptions) -> bool:
    """Whether lists are stored: as told, else where relevance is to come or something looks back at the last run."""
    if options.keep_lists is not None:
        return options.keep_lists
    return options.relevance is not None or needs_last_lists(options)


def config_hash(options: ComparisonOptions) -> str:
    """SHA-256 over everything that changes what a score means: k, metrics, sources, users, sample and seed.

    So do the sources of item weights and relevance, the noise floor, the size of the catalogue that shares and chance refer
    to, and the name of what is normal. Not rules, schedule or storage, nor how lists are fetched (timeouts, retries, limits),
    nor which arm metrics are told beside the scores and how long relevance is waited for. Of secrets only a URL without user
    and password enters, for it says which lists these are; passwords, tokens and headers do not.
    """
    meaning = {
        "k": options.k,
        "metrics": sorted(str(parse(metric)) for metric in options.metrics),
        "baseline": _meaning(options.baseline),
        "candidate": _meaning(options.candidate),
        "users": _meaning(options.users),
        "seed": options.seed,
    }
    later = {
        name: getattr(options, name) for name in ("item_weights", "relevance", "catalogue_size", "noise_floor", "reference")
    }
    meaning |= {name: _meaning(value) for name, value in later.items() if value is not None}
    return hashlib.sha256(json.dumps(meaning, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _meaning(value: object) -> object:
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        named = ((name, getattr(value, name)) for name, field in fields.items() if NOT_IN_HASH not in field.metadata)
        # A setting that is added later and left out must not change the hash of what stood before: hence no nulls.
        return {name: _meaning(found) for name, found in named if _is_hashed(name, found)}
    if isinstance(value, SecretStr):
        return _without_credentials(value.get_secret_value())
    if isinstance(value, Mapping):
        return {str(key): _meaning(found) for key, found in value.items() if not isinstance(found, SecretStr)}
    if isinstance(value, list | tuple):
        return [_meaning(found) for found in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _is_hashed(name: str, value: object) -> bool:
    return value is not None and (name == "url" or not isinstance(value, SecretStr))


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
