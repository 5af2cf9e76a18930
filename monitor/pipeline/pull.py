"""The opened sources of one comparison, and how they are pulled side by side within the run's deadline."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from monitor import ports
from monitor.alerts.rule_evaluation import segments_of
from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import SourceError
from monitor.model.arrays import Floats
from monitor.model.comparison import Comparison
from monitor.model.memory import Memory
from monitor.model.rankings import (
    ALL,
    Arm,
    AskedUsers,
    CoverageReason,
    ItemWeights,
    Panel,
    Pull,
    RelevanceTable,
    UserBatch,
)
from monitor.model.runs import JoinRequest, PullProgress, PullRequest, Scores
from monitor.model.statistics import NoiseFloor
from monitor.model.unreadable import Unreadable
from monitor.pairing.ids import find_users
from monitor.pipeline.freshness import describe_cached, doubt_floor, gaps_between
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.user_batches import cut_panel, split_users
from monitor.sampling import draw

S = TypeVar("S")
T = TypeVar("T")
_NOTHING = Memory()
GRACE_S = 2.0
"""How long past its timeout a source may take to come back before it is given up."""
TITLES_S = 5.0
"""How long titles of items are waited for: lists are compared by then, and alerts go out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """The sources of one comparison, opened.

    ``weights``, ``relevance`` and ``titles`` where it has any.

    ``dimensions``: the columns of the users' source that segments are made of. ``again``: the
    baseline's second lists, where a noise floor is pulled. ``joined``: all of these lists at once,
    where everybody is asked and whoever holds the lists can join them. ``tell`` and ``kept_at``, of
    a slot and an arm by its own name, are for each pull's request. ``scores_to``: where all scores
    are written beside the database. ``pseudonyms``: what users go by in all that leaves this
    module, where they are not to go by their ids; ``relevance`` hides them itself. ``listed``: the
    users of an arm's lists, of arms that can name them."""

    baseline: ports.Source
    candidate: ports.Source
    users: ports.UserSource
    dimensions: tuple[str, ...]
    weights: ports.ItemWeightSource | None = None
    relevance: ports.RelevanceSource | None = None
    titles: ports.ItemTitleSource | None = None
    again: ports.Source | None = None
    joined: ports.JoinedSource | None = None
    tell: Callable[[PullProgress], object] = str
    kept_at: Callable[[datetime, str], str | None] = lambda *_: None
    scores_to: ports.ScoreSink | None = None
    pseudonyms: Pseudonyms | None = None
    listed: Mapping[Arm, ports.UserSource] = field(default_factory=dict)

    def hide(self, users: UserBatch) -> UserBatch:
        """The same users by what they go by."""
        return users if self.pseudonyms is None else self.pseudonyms.hide_batch(users)

    def describe(self, unreadable: Iterable[Unreadable]) -> list[str]:
        """Sentences about what could not be read, without examples where users are hidden."""
        shows_example = self.pseudonyms is None
        return list(
            dict.fromkeys(
                each.sentence(shows_example=shows_example) for each in unreadable if each.count
            )
        )

    def reason(self, error: SourceError) -> str:
        """What the error says, without an example where users are hidden."""
        return error.shown if self.pseudonyms is None else str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the sources answered, in ``batches`` of at most so many users, or ``measured`` where the lists are.

    ``weights`` and ``relevance`` are what is known of items and users; batches hold it too.
    ``lacks`` are sentences about what else could not be read.
    ``seconds``: how long each arm took, or was waited for, where they were pulled side by side; ``gaps``: how long after or
    before the baseline's lists those of the candidate and of the noise floor came. All three may grow with the batches.
    ``scored`` is told the scores of each batch before the next one is taken.
    """

    asked: AskedUsers
    batches: Callable[[int], Iterator[UserBatch]]
    measured: Callable[[ports.Measurer, int], Iterator[bytes]] | None = None
    lacks: Collection[str]
    weights: ItemWeights | None
    relevance: RelevanceTable | None
    seconds: Mapping[Arm, float] = field(default_factory=dict)
    gaps: Mapping[str, list[Floats]] = field(default_factory=dict)
    scored: Callable[[Scores], object] = lambda _: None


@contextmanager
def join_all(
    comparison: Comparison, arms: Arms, source: ports.JoinedSource, slot: datetime, timeout_s: float
) -> Iterator[Answers]:
    """Everybody's answers, joined by whoever holds the lists while they are read.

    SourceError where that fails.
    """
    measuring = comparison.measuring
    request = JoinRequest(
        k=measuring.k,
        slot=slot,
        timeout_s=max(timeout_s, 0.001),
        max_segment_values=measuring.max_segment_values,
        shows_examples=arms.pseudonyms is None,
    )
    deadline = Deadline.after(request.timeout_s + GRACE_S)
    late = f"no answer when the run's deadline passed after {request.timeout_s:.1f} s"
    weights = _Extra("item_weights", arms.weights, lambda each: each.weights(slot), arms.reason)
    relevance = _Extra("relevance", arms.relevance, lambda each: each.relevance(slot), arms.reason)
    with source.read(request) as joined:
        lacks = dict.fromkeys(
            filter(None, (each.wait(deadline, late) for each in (weights, relevance)))
        )
        lacks |= dict.fromkeys((*joined.lacks, *arms.describe(relevance.unreadable)))

        def batches(size: int) -> Iterator[UserBatch]:
            for batch in () if isinstance(joined, ports.RemoteAnswers) else joined.batches(size):
                yield replace(arms.hide(batch), weights=weights.answer, relevance=relevance.answer)
            lacks.update(dict.fromkeys(arms.describe(joined.unreadable)))

        yield Answers(
            asked=joined.asked,
            batches=batches,
            measured=joined.measured if isinstance(joined, ports.RemoteAnswers) else None,
            lacks=lacks.keys(),
            weights=weights.answer,
            relevance=relevance.answer,
        )


def draw_panel(comparison: Comparison, arms: Arms, slot: datetime, timeout_s: float) -> Panel:
    """Draw the panel from the users' source, by their ids."""
    late = f"users of {comparison.name}: the list of users did not arrive before the run's deadline"
    table = ask_in_time(partial(arms.users.users, slot, arms.dimensions), timeout_s, late)
    if arms.pseudonyms is None or comparison.measuring.sample is None:
        return replace(draw(table, comparison, slot), unreadable=table.unreadable)
    # What a run keeps is drawn by what users go by, and has to find the fixed users of the panel.
    hidden = arms.pseudonyms.hide(table.users)
    panel = draw(replace(table, users=hidden), comparison, slot)
    return replace(
        panel, users=table.users[find_users(panel.users, hidden)], unreadable=table.unreadable
    )


def pull_all(
    comparison: Comparison,
    arms: Arms,
    panel: Panel,
    slot: datetime,
    timeout_s: float,
    memory: Memory = _NOTHING,
) -> Answers:
    """All answers, pulled side by side so that they are of the same moment."""
    measuring, family = comparison.measuring, comparison.family or comparison.name
    request = PullRequest(
        users=panel.users, k=measuring.k, slot=slot, timeout_s=max(timeout_s, 0.001)
    )
    # By family: a baseline that is pulled for several candidates keeps step with all of them.
    request = replace(
        request,
        together="\0".join((str(measuring.seed), family, slot.isoformat(), *panel.users[:1])),
    )
    begun_at = time.monotonic()
    deadline = Deadline(begun_at + request.timeout_s + GRACE_S)
    took: dict[Arm, float] = {}

    def asked(what: str, whose: str) -> PullRequest:
        kept_s = measuring.deadline.total_seconds()
        return replace(
            request, what=what, tell=arms.tell, kept_at=arms.kept_at(slot, whose), kept_s=kept_s
        )

    # All calls begin before any is waited for: arms asked one after the other would be of different
    # moments.
    pulling = {
        arm: BackgroundCall(
            partial(_pull, source, asked(arm, whose), arm, took), name=f"{comparison.name}-{arm}"
        )
        for arm, source, whose in zip(
            Arm, (arms.baseline, arms.candidate), comparison.arms, strict=True
        )
    }
    weights = _Extra("item_weights", arms.weights, lambda source: source.weights(slot), arms.reason)
    relevance = _Extra(
        "relevance", arms.relevance, lambda source: source.relevance(slot), arms.reason
    )
    # Else a cache gives the first answer once more, which is no second one.
    second = replace(
        asked("noise floor", "noise floor"), is_uncached=measuring.noise_floor is NoiseFloor.SERVE
    )
    again = _Extra("noise_floor", arms.again, lambda source: source.pull(second), arms.reason)
    late = f"no answer when the run's deadline passed after {request.timeout_s:.1f} s"
    found = {arm: _pulled(call, panel, deadline, late, arms) for arm, call in pulling.items()}
    waited_s = time.monotonic() - begun_at
    lacks = [each.wait(deadline, late) for each in (weights, relevance, again)]
    lists = found[Arm.BASELINE].rankings
    later = {Arm.CANDIDATE.value: found[Arm.CANDIDATE]} | (
        {"noise_floor": again.answer} if again.answer else {}
    )
    doubt = None
    if second.is_uncached and again.answer is not None:
        doubt = doubt_floor(lists, again.answer.rankings, memory.floor_overlaps)
    users = UserBatch(
        panel=panel,
        baseline=found[Arm.BASELINE],
        candidate=found[Arm.CANDIDATE],
        weights=weights.answer,
        relevance=relevance.answer,
        again=None if doubt else again.answer,
    )
    users = arms.hide(users)
    if measuring.noise_floor is NoiseFloor.TEMPORAL and memory.last_lists is not None:
        users = replace(users, again=Pull(rankings=memory.last_lists.baseline, failures={}))
    pulls = [*found.values()] if again.answer is None else [*found.values(), again.answer]
    unreadable = [
        *panel.unreadable,
        *relevance.unreadable,
        *(part for pull in pulls for part in pull.unreadable),
    ]
    cached = (describe_cached(arm, pull.rankings) for arm, pull in found.items())
    return Answers(
        asked=AskedUsers(count=len(panel.segments[ALL]), segments=tuple(panel.segments)),
        batches=partial(split_users, users),
        lacks=tuple(filter(None, (*lacks, doubt, *cached, *arms.describe(unreadable)))),
        gaps={whose: [gaps_between(lists, pull.rankings)] for whose, pull in later.items()},
        weights=weights.answer,
        relevance=relevance.answer,
        # A call that never came back took as long as it was waited for.
        seconds={arm: min(took.get(arm, waited_s), waited_s) for arm in pulling},
    )


def pull_until_certain(
    comparison: Comparison,
    arms: Arms,
    panel: Panel,
    slot: datetime,
    timeout_s: float,
    memory: Memory,
) -> Answers:
    """All answers as `pull_all` gives them, of as many users as it takes.

    The deadline is that of all rounds.
    """
    from monitor.sequential.gate import is_certain, round_ends  # noqa: PLC0415 - executors of Spark have no scipy

    deadline, ends = Deadline.after(timeout_s), round_ends(len(panel))
    order = np.random.default_rng((comparison.measuring.seed, int(slot.timestamp()))).permutation(
        len(panel)
    )
    users = panel.users if arms.pseudonyms is None else arms.pseudonyms.hide(panel.users)
    ordered = cut_panel(replace(panel, users=users), order)
    known = defaultdict[str, Floats](lambda: np.full(len(panel), np.nan))
    watched = [
        (rule, ordered.segments.get(segment, order[:0]))
        for rule in comparison.judging.similarity_rules
        for segment in segments_of(rule, ordered.segments, ())
    ]

    def ask(start: int, end: int, asked: Arms) -> Answers:
        part = cut_panel(panel, np.sort(order[start:end]))
        return pull_all(comparison, asked, part, slot, deadline.remaining_s, memory)

    def take(scores: Scores) -> None:
        rows = find_users(scores.users, ordered.users)
        for metric, values in scores.by_metric.items():
            known[metric][rows] = values

    first = ask(0, ends[0], arms)
    lacks, seconds, gaps = dict.fromkeys(first.lacks), {**first.seconds}, {**first.gaps}

    def batches(size: int) -> Iterator[UserBatch]:
        yield from first.batches(size)
        for start, end in pairwise(ends):
            if watched and all(
                is_certain(rule, known[rule.metric][rows[rows < start]], len(rows))
                for rule, rows in watched
            ):
                return
            found = ask(start, end, replace(arms, weights=None, relevance=None))
            lacks.update(dict.fromkeys(found.lacks))
            seconds.update({arm: seconds[arm] + more for arm, more in found.seconds.items()})
            gaps.update({whose: gaps.get(whose, []) + more for whose, more in found.gaps.items()})
            for batch in found.batches(size):
                yield replace(batch, weights=first.weights, relevance=first.relevance)

    asked = replace(first.asked, count=len(panel.segments[ALL]))
    return replace(
        first,
        asked=asked,
        batches=batches,
        lacks=lacks.keys(),
        seconds=seconds,
        gaps=gaps,
        scored=take,
    )


def pull_titles(
    source: ports.ItemTitleSource | None,
    slot: datetime,
    items: Collection[str],
    timeout_s: float = TITLES_S,
) -> tuple[Mapping[str, str], str | None]:
    """Titles of these items where there is a source of them, and why it gave none.

    Waits for `TITLES_S` at most.
    """
    if source is None or not items:
        return {}, None
    wait_s = max(0.0, min(timeout_s, TITLES_S))
    titles = _Extra("item_titles", source, lambda each: each.titles(slot, items))
    lack = titles.wait(
        Deadline.after(wait_s), f"no answer within {wait_s:.0f} s: items go by their ids"
    )
    return titles.answer or {}, lack


def ask_in_time(read: Callable[[], T], timeout_s: float, late: str) -> T:
    """What a source answers; SourceError with the text ``late`` where it has not by then."""
    try:
        return BackgroundCall(read, name="source").wait(Deadline.after(timeout_s))
    except OverdueError:
        raise SourceError(late, permanent=False) from None


class _Extra(Generic[T]):
    """What a run can do without, asked of its source in the background.

    There may be no such source.
    """

    def __init__(
        self,
        what: str,
        source: S | None,
        read: Callable[[S], T | None],
        reason: Callable[[SourceError], str] = str,
    ) -> None:
        self.answer: T | None = None
        self._what, self._reason = what, reason
        self._call = None if source is None else BackgroundCall(partial(read, source), name=what)

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """What of the answer could not be read."""
        return getattr(self.answer, "unreadable", ())

    def wait(self, deadline: Deadline, late: str) -> str | None:
        """Wait for the answer; the reason why there is none where the source failed."""
        try:
            self.answer = None if self._call is None else self._call.wait(deadline)
        except SourceError as error:
            return f"{self._what}: {self._reason(error)}"
        except OverdueError:
            return f"{self._what}: {late}"
        return None


def _pull(source: ports.Source, request: PullRequest, arm: Arm, took: dict[Arm, float]) -> Pull:
    begun_at = time.monotonic()
    try:
        return source.pull(request)
    finally:
        # Noted also where it fails.
        took[arm] = time.monotonic() - begun_at


def _pulled(
    call: BackgroundCall[Pull], panel: Panel, deadline: Deadline, late: str, arms: Arms
) -> Pull:
    try:
        return call.wait(deadline)
    except SourceError as error:
        return Pull.failed(panel.users, note=arms.reason(error))
    except OverdueError:
        return Pull.failed(panel.users, CoverageReason.TIMEOUT, late)
