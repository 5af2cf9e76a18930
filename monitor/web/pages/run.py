"""One run: what happened, for whom, and the lists that show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.model import ArmScore, Coverage, Evidence, Explanation, FiringChange, Run, Summary, items_of
from monitor.web.pages.site import Query, Site, require_slot


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """What the page of one run shows; ``moved``: by how much each summary's mean moved since the run before."""

    name: str
    run: Run
    before: datetime | None
    after: datetime | None
    explanation: Explanation | None
    coverage: Coverage | None
    summaries: tuple[Summary, ...]
    moved: tuple[float | None, ...]
    arms: tuple[ArmScore, ...]
    worst: tuple[Evidence, ...]
    representative: tuple[Evidence, ...]
    unchanged: tuple[Evidence, ...]
    titles: Mapping[str, str]
    urls: Mapping[str, str]
    began: tuple[tuple[str, int], ...]
    ended: tuple[tuple[str, int], ...]
    incident: str | None


def read_run_page(site: Site, query: Query) -> RunPage:
    """AbsentPageError for a slot that was never run, or whose run is deleted."""
    name, slot = query.path["name"], require_slot(query.path["slot"])
    site.require(name)
    run = site.run_at(name, slot)
    latest = site.latest_of(name)
    record = latest if latest and latest.run == run else site.store.history.record(run.id)
    before, after = site.store.pages.neighbours(name, slot)
    former = site.store.pages.means(site.run_at(name, before).id) if before else {}
    evidence = site.store.history.evidence(run.id)
    changes = site.store.pages.changes(name, None, since=slot, until=slot)
    summaries, told = (record.summaries, record.explanation) if record else ((), None)
    return RunPage(
        name=name,
        run=run,
        before=before,
        after=after,
        explanation=told,
        coverage=record.coverage if record else None,
        summaries=summaries,
        moved=tuple(
            None if each.mean is None or (old := former.get((each.segment, each.metric))) is None else each.mean - old
            for each in summaries
        ),
        arms=record.arm_scores if record else (),
        worst=tuple(each for each in evidence if each.kind == "worst"),
        representative=tuple(each for each in evidence if each.kind == "representative" and each.baseline != each.candidate),
        unchanged=tuple(each for each in evidence if each.kind == "representative" and each.baseline == each.candidate),
        titles=site.titles(name, slot, items_of(evidence)),
        urls=site.item_urls(name, [each.item for each in (*told.gained, *told.lost)] if told else ()),
        began=_count_by_alert(each for each in changes if each.is_start),
        ended=_count_by_alert(each for each in changes if not each.is_start),
        incident=next((each.key for each in changes if each.is_start), None),
    )


def _count_by_alert(changes: Iterable[FiringChange]) -> tuple[tuple[str, int], ...]:
    """Alerts and for how many segments, most first."""
    return tuple(Counter(each.alert for each in changes).most_common())
