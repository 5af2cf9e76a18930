"""Preview of a configured comparison: a few users asked of both arms. Stores and sends nothing."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from monitor.alerts.unmatched import find_unmatched
from monitor.errors import ConfigError, MonitorError, SourceError
from monitor.model.comparison import Comparison, SampleSize
from monitor.model.id_mismatches import IdKind, IdMismatch
from monitor.model.memory import Memory
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.runs import Evidence, MeasuredRun, items_of
from monitor.model.unmatched_names import UnmatchedName
from monitor.pipeline.pull import Arms, draw_panel, pull_titles
from monitor.pipeline.run_measurement import Stopwatch, measure_slot
from monitor.pipeline.unmatched_users import compare_users
from monitor.service.clock import SystemClock
from monitor.service.runner import Watched

_WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How many of the baseline's distinct ids the candidate has."""

    ids: IdKind
    matching: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a handful of users got from both arms, or why they got nothing."""

    comparison: Comparison
    slot: datetime
    next_slot: datetime
    coverage: Coverage | None = None
    evidence: tuple[Evidence, ...] = ()
    troubles: tuple[str, ...]
    matches: tuple[Match, ...] = ()
    id_mismatches: tuple[IdMismatch, ...] = ()
    unmatched: tuple[UnmatchedName, ...] = ()
    notes: Mapping[tuple[Arm, CoverageReason], str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)


def preview_users(watched: Watched, count: int) -> Preview:
    """Ask both arms of a comparison for a handful of its users."""
    whole = watched.comparison
    measuring = replace(whole.measuring, sample=SampleSize(rotating=count), evidence_users=count)
    few = replace(whole, measuring=measuring)
    now = SystemClock().now()
    slot = watched.schedule.latest(now)
    preview = partial(Preview, comparison=few, slot=slot, next_slot=watched.schedule.next(now))
    try:
        found = measure_slot(few, watched.arms, slot, Memory(), Stopwatch(SystemClock()))
    except SourceError as error:
        return preview(troubles=(watched.arms.reason(error),))
    except MonitorError as error:
        return preview(troubles=(str(error),))
    titles, untitled = pull_titles(watched.arms.titles, slot, items_of(found.run.evidence))
    return preview(
        coverage=found.coverage,
        evidence=found.run.evidence,
        troubles=tuple(filter(None, [untitled])),
        matches=tuple(_matches(watched.arms, slot, found.run.evidence)),
        id_mismatches=_find_mismatches(watched.arms, slot, found.run),
        unmatched=_find_unmatched(whole, watched.arms, slot),
        notes={key: str(note) for key, note in found.notes.items()},
        titles=titles,
    )


def _matches(arms: Arms, slot: datetime, evidence: tuple[Evidence, ...]) -> Iterator[Match]:
    """How many of the users asked, and of the items shown, the candidate has too."""
    with suppress(ConfigError, SourceError):  # what cannot be read has its own trouble
        if Arm.CANDIDATE in arms.listed:
            asked, listed = (
                source.users(slot, ()).users for source in (arms.users, arms.listed[Arm.CANDIDATE])
            )
            yield _match(IdKind.USER, asked, listed)
    if evidence:
        yield _match(
            IdKind.ITEM,
            *([item for each in evidence for item in getattr(each, arm)] for arm in Arm),
        )


def _match(ids: IdKind, baseline: Iterable[str], candidate: Iterable[str]) -> Match:
    ours = set(baseline)
    return Match(ids=ids, matching=len(ours & set(candidate)), of=len(ours))


def _find_mismatches(arms: Arms, slot: datetime, run: MeasuredRun) -> tuple[IdMismatch, ...]:
    """Those that the run found, and of users those of the whole arms, of which a few may have been asked by chance."""
    of_users = [compare_users(arms, arm, slot, _WAIT_S) for arm in Arm]
    of_items = [each for each in run.id_mismatches if each.ids is IdKind.ITEM]
    return (*filter(None, of_users), *of_items)


def _find_unmatched(
    comparison: Comparison, arms: Arms, slot: datetime
) -> tuple[UnmatchedName, ...]:
    """What the comparison names in vain, looked for among all users, not only those of a sample."""
    everybody = replace(comparison, measuring=replace(comparison.measuring, sample=None))
    try:
        segments = draw_panel(everybody, arms, slot, _WAIT_S).segments
    except (ConfigError, SourceError):  # what cannot be read has its own trouble
        return ()
    return find_unmatched(comparison, segments)
