"""One run: what happened, for whom, and the lists that show it; one user of it over runs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.charts.slope_chart import describe_move
from monitor.model.explanation import ExampleLists, Explanation
from monitor.model.pages import FiringChange, UserLists, UserRun
from monitor.model.rankings import Arm, Coverage
from monitor.model.runs import ArmScore, Evidence, Run, Summary, items_of
from monitor.web.pages.site import AbsentPageError, Query, Site, require_slot

RUNS = 200
_LIKE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """What the page of one run shows.

    ``moved``: by how much each summary's mean moved since the run before.
    """

    name: str
    run: Run
    before: datetime | None
    after: datetime | None
    explanation: Explanation | None
    coverage: Coverage | None
    is_same_input: bool
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
    run_before = site.run_at(name, before) if before else None
    former = site.store.pages.means(run_before.id) if run_before else {}
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
        is_same_input=run_before is not None
        and run_before.input_hash == run.input_hash is not None,
        summaries=summaries,
        moved=tuple(
            None
            if each.mean is None or (old := former.get((each.segment, each.metric))) is None
            else each.mean - old
            for each in summaries
        ),
        arms=record.arm_scores if record else (),
        worst=tuple(each for each in evidence if each.kind == "worst"),
        representative=tuple(
            each
            for each in evidence
            if each.kind == "representative" and each.baseline != each.candidate
        ),
        unchanged=tuple(
            each
            for each in evidence
            if each.kind == "representative" and each.baseline == each.candidate
        ),
        titles=site.titles(name, slot, items_of(evidence)),
        urls=site.item_urls(
            name, [each.item for each in (*told.gained, *told.lost)] if told else ()
        ),
        began=_count_by_alert(each for each in changes if each.is_start),
        ended=_count_by_alert(each for each in changes if not each.is_start),
        incident=next((each.key for each in changes if each.is_start), None),
    )


def _count_by_alert(changes: Iterable[FiringChange]) -> tuple[tuple[str, int], ...]:
    """Alerts and for how many segments, most first."""
    return tuple(Counter(each.alert for each in changes).most_common())


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What became of one item of the lists; ranks count from 1, None where a list lacks it."""

    item: str
    title: str | None
    baseline: int | None
    candidate: int | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPage:
    """What the page of one user in one run shows.

    ``former``: the list of an earlier run, in the arm that changed.
    """

    name: str
    user: str
    run: Run
    before: datetime | None
    after: datetime | None
    lists: UserLists | None
    moves: tuple[Move, ...]
    titles: Mapping[str, str]
    urls: Mapping[str, str]
    scores: Mapping[str, float | None]
    history: tuple[UserRun, ...]
    alike: tuple[ExampleLists, ...]
    former: tuple[str, ...]
    former_arm: Arm
    former_slot: datetime | None


def read_user_page(site: Site, query: Query) -> UserPage:
    """AbsentPageError where nothing is stored of the user.

    Without lists the scores are shown, and what to set.
    """
    name = query.path["name"]
    user = site.find_user(query.path.get("user", query.chosen.get("id", "")))
    site.require(name)
    run = _run(site, name, query.chosen.get("slot"))
    lists = site.store.pages.user_lists(run.id, user)
    history = site.store.pages.user_scores(name, user, until=run.slot, runs=RUNS)
    if lists is None and not history:
        raise AbsentPageError(
            (
                f"nothing is stored of user {user} up to the run of {name} at "
                f"{run.slot:%Y-%m-%d %H:%M} UTC"
            )
        )
    before, after = site.store.pages.neighbours(name, run.slot)
    explained = site.store.pages.explanation(run.id)
    former_slot, earlier = site.store.pages.former_lists(name, user, run.slot)
    arm = (explained and explained.arm) or Arm.CANDIDATE
    former = getattr(earlier, arm, ())
    items = {*former, *lists.baseline, *lists.candidate} if lists else set()
    titles = site.titles(name, run.slot, items)
    groups = explained.groups if explained else ()
    mine = next(
        (group for group in groups if any(each.user == user for each in group.examples)), None
    )
    return UserPage(
        name=name,
        user=user,
        run=run,
        before=before,
        after=after,
        lists=lists,
        moves=list_moves(lists, titles) if lists else (),
        titles=titles,
        urls=site.item_urls(name, items),
        scores=next((each.scores for each in history if each.slot == run.slot), {}),
        history=history,
        alike=tuple(each for each in mine.examples if each.user != user)[:_LIKE] if mine else (),
        former=former,
        former_arm=arm,
        former_slot=former_slot,
    )


def list_moves(lists: UserLists, titles: Mapping[str, str]) -> tuple[Move, ...]:
    """Every item of both lists, in the candidate's order and then those that it lacks."""
    before = {item: rank for rank, item in enumerate(lists.baseline, start=1)}
    after = {item: rank for rank, item in enumerate(lists.candidate, start=1)}
    return tuple(
        Move(
            item=item,
            title=titles.get(item),
            baseline=before.get(item),
            candidate=after.get(item),
            what=describe_move(before.get(item), after.get(item)),
        )
        for item in dict.fromkeys((*lists.candidate, *lists.baseline))
    )


def _run(site: Site, name: str, slot: str | None) -> Run:
    if slot is None:
        latest = site.latest_of(name)
        if latest is None:
            raise AbsentPageError(f"no run of {name} has ended yet")
        return latest.run
    return site.run_at(name, require_slot(slot))
