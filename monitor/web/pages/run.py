"""The page of one run, and the page of one user in a run."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from monitor.charts.slope_chart import describe_move
from monitor.model.alerts import Transition
from monitor.model.explanation import ExampleLists, Explanation
from monitor.model.immutable import extend, immutable
from monitor.model.pages import UserLists, UserRun
from monitor.model.rankings import Arm, ranks_by_item
from monitor.model.runs import (
    Evidence,
    EvidenceKind,
    FinishedRun,
    LatestRun,
    Run,
    Summary,
    items_of,
)
from monitor.model.statistics import arm_of_scores
from monitor.web.pages.overview import Firing, list_firing
from monitor.web.pages.site import AbsentPageError, PageRequest, Site, require_slot

MOST_HISTORY_RUNS = 200
_MOST_SIMILAR_USERS = 6


@immutable
class RunPage:
    """The data of a run's page.

    - ``mean_changes`` are the changes of the means since the previous run, one for each summary of
      the run.
    - ``worst``, ``representative`` and ``unchanged`` are the users of the evidence: those with the
      least similar lists, typical users, and users with equal lists from both arms.
    - ``titles`` and ``urls`` are those of items that the page shows.
    - ``started_alerts`` and ``ended_alerts`` are names of alerts, each with the segments in which
      it started or ended.
    - ``firing`` are the alerts that fire after the run. It is None if there is a newer run.
    """

    comparison: str
    run: FinishedRun
    previous_slot: datetime | None
    next_slot: datetime | None
    is_same_input: bool
    mean_changes: tuple[float | None, ...]
    worst: tuple[Evidence, ...]
    representative: tuple[Evidence, ...]
    unchanged: tuple[Evidence, ...]
    titles: Mapping[str, str]
    urls: Mapping[str, str]
    started_alerts: tuple[tuple[str, tuple[str, ...]], ...]
    ended_alerts: tuple[tuple[str, tuple[str, ...]], ...]
    firing: tuple[Firing, ...] | None
    incident: str | None


def read_run_page(site: Site, query: PageRequest) -> RunPage:
    """Return the page of one run."""
    name = query.path["name"]
    slot = require_slot(query.path["slot"])
    site.require(name)
    run = _with_results(site, site.run_at(name, slot))
    pages = site.store.pages
    previous_run, next_run = pages.neighbours(name, slot)
    means_before: Mapping[tuple[str, str], float | None] = {}
    if previous_run is not None:
        means_before = pages.means(previous_run.id)
    evidence = site.store.history.evidence(run.id)
    worst = []
    representative = []
    unchanged = []
    for example in evidence:
        if example.kind == EvidenceKind.WORST:
            worst.append(example)
        elif example.baseline == example.candidate:
            unchanged.append(example)
        else:
            representative.append(example)
    # These transitions include no acknowledgements.
    transitions = pages.changes(name, None, since=slot, until=slot)
    starts = [change for change in transitions if change.is_start]
    ends = [change for change in transitions if not change.is_start]
    linked_items = []
    if run.explanation is not None:
        for exposure in (*run.explanation.gained, *run.explanation.lost):
            linked_items.append(exposure.item)
    # These items need titles. Items of the explanation are stored with their titles.
    untitled_items = items_of(evidence)
    if run.unpaired is not None:
        untitled_items = untitled_items.union(exposure.item for exposure in run.unpaired.items)
    return RunPage(
        comparison=name,
        run=run,
        previous_slot=_slot_of(previous_run),
        next_slot=_slot_of(next_run),
        is_same_input=run.has_input_of(previous_run),
        mean_changes=_mean_changes(run.summaries, means_before),
        worst=tuple(worst),
        representative=tuple(representative),
        unchanged=tuple(unchanged),
        titles=site.titles(name, slot, untitled_items),
        urls=site.item_urls(name, linked_items),
        started_alerts=_segments_by_alert(starts),
        ended_alerts=_segments_by_alert(ends),
        firing=list_firing(run.states) if isinstance(run, LatestRun) else None,
        incident=starts[0].incident if starts else None,
    )


def _slot_of(run: Run | None) -> datetime | None:
    return None if run is None else run.slot


def _with_results(site: Site, run: Run) -> FinishedRun:
    """Return the run with its results, or without them if they were just deleted."""
    latest = site.latest_of(run.comparison)
    # The newest run is in memory. Each attempt of a run has another mark.
    if latest is not None and latest.mark == run.mark:
        return latest
    return site.store.history.finished_run(run.id) or extend(FinishedRun, run)


def _mean_changes(
    summaries: Sequence[Summary], means_before: Mapping[tuple[str, str], float | None]
) -> tuple[float | None, ...]:
    """Return the change of each summary's mean. None if the mean of now or of before is unknown.

    The keys of ``means_before`` are a segment and a metric.
    """
    changes: list[float | None] = []
    for summary in summaries:
        before = means_before.get((summary.segment, summary.metric))
        if summary.mean is None or before is None:
            changes.append(None)
        else:
            changes.append(summary.mean - before)
    return tuple(changes)


def _segments_by_alert(
    transitions: Sequence[Transition],
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return each alert with the segments of its transitions. Most segments come first."""
    changes = Counter(change.alert for change in transitions)
    by_alert = []
    for alert, _ in changes.most_common():
        segments = [change.segment for change in transitions if change.alert == alert]
        by_alert.append((alert, tuple(segments)))
    return tuple(by_alert)


@immutable
class Move:
    """How one item moved. ``baseline`` and ``candidate`` are its ranks in both lists, from 1."""

    item: str
    title: str | None
    baseline: int | None
    candidate: int | None
    change: str


@immutable
class UserPage:
    """The data of a user's page in one run.

    ``former`` is the user's list in an earlier run, from the arm that has changed since then. If
    each user is served by one arm only, ``served_by`` is the user's arm, and ``former`` was served
    by it.
    """

    comparison: str
    user: str
    run: Run
    previous_slot: datetime | None
    next_slot: datetime | None
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
    served_by: Arm | None


def read_user_page(site: Site, query: PageRequest) -> UserPage:
    """Return the page of one user in one run. Without stored lists, the page shows only scores.

    Raises AbsentPageError if neither lists nor scores are stored.
    """
    name = query.path["name"]
    user = site.find_user(query.path.get("user", query.chosen.get("id", "")))
    site.require(name)
    run = _read_run(site, name, query.chosen.get("slot"))
    pages = site.store.pages
    lists = pages.user_lists(run.id, user)
    slot = run.slot
    history = pages.user_scores(name, user, until=slot, runs=MOST_HISTORY_RUNS)
    if lists is None and not history:
        raise AbsentPageError(
            f"no list and no score of user {user} is stored up to the run of {name} at "
            f"{slot:%Y-%m-%d %H:%M} UTC"
        )
    previous_run, next_run = pages.neighbours(name, slot)
    scores: Mapping[str, float | None] = {}
    if history and history[-1].slot == slot:
        scores = history[-1].scores
    served_by = arm_of_scores(scores)
    explanation = pages.explanation(run.id)
    # The page shows an earlier list of the arm that has changed. If only one arm serves each user,
    # all lists are stored as lists of the candidate.
    former_arm = Arm.CANDIDATE
    if explanation is not None and explanation.arm is not None and served_by is None:
        former_arm = explanation.arm
    former_slot, former_lists = pages.former_lists(name, user, slot)
    former_list: tuple[str, ...] = getattr(former_lists, former_arm, ())
    items: Collection[str] = ()
    if lists is not None:
        items = {*former_list, *lists.baseline, *lists.candidate}
    titles = site.titles(name, slot, items)
    moves: tuple[Move, ...] = ()
    if lists is not None:
        moves = find_item_moves(lists, titles)
    return UserPage(
        comparison=name,
        user=user,
        run=run,
        previous_slot=_slot_of(previous_run),
        next_slot=_slot_of(next_run),
        lists=lists,
        moves=moves,
        titles=titles,
        urls=site.item_urls(name, items),
        scores=scores,
        history=history,
        alike=_find_similar_users(user, explanation),
        former=former_list,
        former_arm=former_arm,
        former_slot=former_slot,
        served_by=served_by,
    )


def _find_similar_users(user: str, explanation: Explanation | None) -> tuple[ExampleLists, ...]:
    """Return other users whose lists changed in the same way, if the explanation names some."""
    if explanation is None:
        return ()
    for group in explanation.groups:
        others = [example for example in group.examples if example.user != user]
        is_in_group = len(others) < len(group.examples)
        if is_in_group:
            return tuple(others[:_MOST_SIMILAR_USERS])
    return ()


def find_item_moves(lists: UserLists, titles: Mapping[str, str]) -> tuple[Move, ...]:
    """Return how each item moved from the baseline's list to the candidate's list.

    The candidate's items come first, in their order. Items that only the baseline has follow.
    """
    moves = []
    for item, (before, after) in ranks_by_item(lists.baseline, lists.candidate).items():
        move = Move(
            item=item,
            title=titles.get(item),
            baseline=before,
            candidate=after,
            change=describe_move(before, after),
        )
        moves.append(move)
    return tuple(moves)


def _read_run(site: Site, name: str, slot: datetime | None) -> Run:
    """Return the run of this slot, or the newest run if ``slot`` is None."""
    if slot is not None:
        return site.run_at(name, slot)
    latest = site.latest_of(name)
    if latest is None:
        raise AbsentPageError(f"no run of {name} has ended yet")
    return latest
