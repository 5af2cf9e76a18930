"""One user: both lists side by side, and the user's scores over runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.charts.slope_chart import describe_move
from monitor.model import ExampleLists, Run, UserLists, UserRun
from monitor.web.pages.site import AbsentPageError, Query, Site, require_slot

RUNS = 200
_LIKE = 6


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
    """What the page of one user in one run shows."""

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


def read_user_page(site: Site, query: Query) -> UserPage:
    """AbsentPageError where nothing is stored of the user; without lists the scores are shown, and what to set."""
    name = query.path["name"]
    user = site.find_user(query.path.get("user", query.chosen.get("id", "")))
    site.require(name)
    run = _run(site, name, query.chosen.get("slot"))
    lists = site.store.pages.user_lists(run.id, user)
    history = site.store.pages.user_scores(name, user, until=run.slot, runs=RUNS)
    if lists is None and not history:
        msg = f"nothing is stored of user {user} up to the run of {name} at {run.slot:%Y-%m-%d %H:%M} UTC"
        raise AbsentPageError(msg)
    before, after = site.store.pages.neighbours(name, run.slot)
    items = {*lists.baseline, *lists.candidate} if lists else set()
    titles = site.titles(name, run.slot, items)
    explained = site.store.pages.explanation(run.id)
    groups = explained.groups if explained else ()
    mine = next((group for group in groups if any(each.user == user for each in group.examples)), None)
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
            msg = f"no run of {name} has ended yet"
            raise AbsentPageError(msg)
        return latest.run
    return site.run_at(name, require_slot(slot))
