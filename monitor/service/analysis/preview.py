"""Preview of a configured comparison: a few users asked of both arms. Stores and sends nothing."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from monitor.errors import ConfigError, MonitorError, SourceError
from monitor.model.comparison import Comparison, SampleSize
from monitor.model.memory import Memory
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.runs import Evidence, items_of
from monitor.pipeline.pull import Arms, pull_titles
from monitor.pipeline.run_measurement import Stopwatch, measure_slot
from monitor.service.clock import SystemClock
from monitor.service.runner import Watched
from monitor.sources import SourceOptions, UsersOptions, open_users
from monitor.sources.id_forms import speller

_PREFIX = re.compile(r"[^\W\d_]+([^\w\s]+|_|(?=\d))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a handful of users got from both arms, or why they got nothing."""

    comparison: Comparison
    slot: datetime
    next_slot: datetime
    coverage: Coverage | None = None
    evidence: tuple[Evidence, ...] = ()
    troubles: tuple[str, ...]
    matches: tuple[str, ...] = ()
    notes: Mapping[tuple[Arm, CoverageReason], str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)


def preview_users(watched: Watched, candidate: SourceOptions, count: int) -> Preview:
    """Ask both arms of a comparison for a handful of its users; ``candidate``: where the lists of the second come from."""
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
        matches=tuple(_matches(watched.arms, candidate, slot, found.run.evidence)),
        notes=found.notes,
        titles=titles,
    )


def _matches(arms: Arms, candidate: SourceOptions, slot: datetime, evidence: tuple[Evidence, ...]) -> Iterator[str]:
    """How many of the users asked, and of the baseline's items, the candidate has, and in which form it would have more."""
    with suppress(ConfigError, SourceError):  # not all lists can name their users; what cannot be read has its own trouble
        listed = open_users(UsersOptions(all=True), candidate).users(slot, ())
        yield _match("user", arms.users.users(slot, ()).users, listed.users)
    if evidence:
        yield _match("item", *([item for each in evidence for item in getattr(each, arm)] for arm in Arm))


def _match(what: str, baseline: Iterable[str], candidate: Iterable[str]) -> str:
    """The sentence about ids of ``what``, ``user`` or ``item``, with each form that would raise the share."""
    ours, theirs = set(baseline), set(candidate)
    matching = len(ours & theirs)
    told = f"{matching:,} of {len(ours):,} {what}s match"
    usual = Counter(match[0] for each in (*ours, *theirs) if (match := _PREFIX.match(each))).most_common(2)
    forms: list[str | dict[str, str]] = ["strip", "lower", "int", *({"prefix": text} for text, _ in usual)]
    for form in forms:
        spell = speller([form])
        spelled = set(spell(list(theirs))) if matching < len(ours) else set()
        if (would := sum(each in spelled for each in spell(list(ours)))) > matching:
            shown = form if isinstance(form, str) else f'{{prefix: "{form["prefix"]}"}}'
            told += f"; with {what}_ids: [{shown}] for both arms {would:,} would"
    return told
