"""From options to what the program runs on: `Comparison`, its schedule, and the hash over what its scores mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from monitor.arm_metrics import ArmNeed, parse_arm_metric
from monitor.metrics import parse
from monitor.model import COVERAGE, Comparison, Direction, Rule, RuleKind, SampleSize, Statistic
from monitor.settings.cron import Cron
from monitor.settings.models import ComparisonOptions, RuleOptions
from monitor.settings.schedule import Every, Schedule
from monitor.sources import SampleOptions

SHORTEST = timedelta(seconds=1)
"""The least time between two runs."""

_DEADLINE = timedelta(minutes=10)
_DEADLINE_SHARE = 0.8
_HOW_NOT_WHAT = frozenset({"ca_file", "timeout", "retries", "concurrency", "batch", "max_bytes", "max_rows", "after", "within"})
"""Settings of sources that decide how lists are fetched and not which."""


def to_schedule(options: ComparisonOptions) -> Schedule:
    """When the comparison runs."""
    return schedule_of(options.every, options.cron, options.timezone)


def schedule_of(every: timedelta | None, cron: str | None, zone: str) -> Schedule:
    """The schedule of either a period or a cron expression."""
    if every is not None:
        return Every(every)
    return Cron.parse(cron or "", zone)


def to_comparison(options: ComparisonOptions) -> Comparison:
    """What the pipeline runs on, without sources."""
    return Comparison(
        name=options.name,
        k=options.k,
        metrics=options.metrics,
        rules=tuple(to_rule(rule) for rule in options.rules),
        sample=None if options.users.sample is None else sample_size(options.users.sample),
        seed=options.seed,
        deadline=options.deadline or min(_DEADLINE, to_schedule(options).interval * _DEADLINE_SHARE),
        min_paired_share=options.min_paired_share,
        max_segment_values=options.max_segment_values,
        evidence_users=options.evidence_users,
        keep_scores=options.keep_scores,
        config_hash=config_hash(options),
        arm_metrics=options.arm_metrics,
        catalogue_size=options.catalogue_size,
        keep_lists=keeps_lists(options),
        runs_a_false_page=options.false_alarm_every / to_schedule(options).interval,
        relevance_within=options.relevance.within if options.relevance else None,
        relevance_after=(options.relevance and options.relevance.after) or timedelta(0),
    )


def to_rule(options: RuleOptions) -> Rule:
    """One rule with its side, threshold and point of recovery made explicit."""
    kind = RuleKind(options.learned) if options.learned else RuleKind.THRESHOLD
    if options.learned is not None:
        direction, threshold, end = *_drifting(options), None
    elif options.below is not None:
        direction, threshold, end = Direction.BELOW, options.below, options.resolve_above
    else:
        direction, threshold, end = Direction.ABOVE, options.above or 0.0, options.resolve_below
    return Rule(
        alert=options.alert,
        metric=options.metric or COVERAGE,
        statistic=options.coverage or options.statistic,
        direction=direction,
        threshold=threshold,
        resolve_at=threshold if end is None else end,
        segments=options.segments,
        for_runs=options.for_runs,
        min_users=options.min_users,
        severity=options.severity,
        runbook_url=options.runbook_url,
        labels=dict(options.labels),
        kind=kind,
    )


def _drifting(options: RuleOptions) -> tuple[Direction, float]:
    """The side on which the statistic lies when lists drift apart, and the value that it never passes there."""
    metric, statistic = parse(options.metric or ""), Statistic.parse(options.statistic)
    if statistic.floor is not None:
        return (Direction.ABOVE, 1.0) if metric.higher_is_more_alike else (Direction.BELOW, 0.0)
    return (Direction.BELOW, metric.low) if metric.higher_is_more_alike else (Direction.ABOVE, metric.high)


def sample_size(sample: int | SampleOptions) -> SampleSize:
    """How many users of each kind; a bare number means so many users, the same each run."""
    if isinstance(sample, int):
        return SampleSize(fixed=sample)
    return SampleSize(fixed=sample.fixed, rotating=sample.rotating)


def keeps_lists(options: ComparisonOptions) -> bool:
    """Whether lists are stored: as told, else where relevance is to come or an arm metric looks back at the last run."""
    if options.keep_lists is not None:
        return options.keep_lists
    return options.relevance is not None or any(
        parse_arm_metric(name).need is ArmNeed.KEEP_LISTS for name in options.arm_metrics
    )


def config_hash(options: ComparisonOptions) -> str:
    """SHA-256 over everything that changes what a score means: k, metrics, sources, users, sample and seed.

    So do the sources of item weights and relevance, and the size of the catalogue that shares and chance refer to. Not rules,
    schedule or storage, nor how lists are fetched (timeouts, retries, limits), nor which arm metrics are told beside the
    scores and how long relevance is waited for. Of secrets only a URL without user
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
    later = {name: getattr(options, name) for name in ("item_weights", "relevance", "catalogue_size")}
    meaning |= {name: _meaning(value) for name, value in later.items() if value is not None}
    return hashlib.sha256(json.dumps(meaning, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _meaning(value: object) -> object:
    if isinstance(value, BaseModel):
        named = ((name, getattr(value, name)) for name in type(value).model_fields if name not in _HOW_NOT_WHAT)
        # A setting that is added later and left out must not change the hash of what stood before: hence no nulls.
        return {name: _meaning(found) for name, found in named if _counts(name, found)}
    if isinstance(value, SecretStr):
        return _without_credentials(value.get_secret_value())
    if isinstance(value, Mapping):
        return {str(key): _meaning(found) for key, found in value.items() if not isinstance(found, SecretStr)}
    if isinstance(value, list | tuple):
        return [_meaning(found) for found in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _counts(name: str, value: object) -> bool:
    return value is not None and (name == "url" or not isinstance(value, SecretStr))


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
