"""Asks the sources of one comparison in parallel, within the run's deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from math import inf
from operator import methodcaller
from typing import Generic, TypeVar

from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.measures.pairing.ids import find_users
from monitor.measures.sampling import draw_users
from monitor.model import ports
from monitor.model.arrays import Floats
from monitor.model.errors import SourceError
from monitor.model.immutable import immutable
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
from monitor.model.rules import Comparison
from monitor.model.run_reasons import RunReason
from monitor.model.runs import JoinRequest, PullProgress, PullRequest, Scores
from monitor.model.statistics import NoiseFloor
from monitor.model.unreadable import Unreadable
from monitor.pipeline.freshness import describe_cached, doubt_floor, gaps_between
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.stopwatch import Stopwatch
from monitor.pipeline.user_batches import split_users

S = TypeVar("S")
_T = TypeVar("_T")
_NO_MEMORY = Memory()
_LEAST_TIMEOUT_S = 0.001
SOURCE_GRACE_S = 2.0
"""A source may take this many seconds to return after its timeout."""


@immutable
class ComparisonSources:
    """The opened sources of one comparison.

    - ``dimensions`` are the columns of the users' source from which segments are made.
    - ``second_baseline`` gives the baseline's second lists, if they are the noise floor.
    - ``joined`` joins the lists of both arms, if the run asks for all users.
    - ``on_progress`` is called with the progress of each pull.
    - ``answers_path`` returns where the answers for a slot and an arm's name are stored.
    - ``scores_to`` gets the scores of all users, and the database stores some of them.
    - ``pseudonyms`` replace the users' ids in everything that leaves this module. The ids in
      ``relevance`` have been replaced before.
    - ``listed`` gives the users in an arm's lists, for arms that can list their users.
    - ``unpaired`` has more sources if each user is served by one arm only. Then the baseline is
      the users' pre-test lists, and the candidate is their current lists.
    """

    baseline: ports.Source
    candidate: ports.Source
    users: ports.UserSource
    dimensions: tuple[str, ...]
    weights: ports.ItemWeightSource | None = None
    relevance: ports.RelevanceSource | None = None
    titles: ports.ItemTitleSource | None = None
    second_baseline: ports.Source | None = None
    joined: ports.JoinedSource | None = None
    on_progress: Callable[[PullProgress], object] = ports.do_nothing
    answers_path: Callable[[datetime, str], str | None] = ports.do_nothing
    scores_to: ports.ScoreSink | None = None
    pseudonyms: Pseudonyms | None = None
    listed: Mapping[Arm, ports.UserSource] = field(default_factory=dict)
    unpaired: UnpairedSources | None = None

    def hide_ids(self, users: UserBatch) -> UserBatch:
        """Replace the users' ids by pseudonyms, if the comparison uses pseudonyms."""
        return users if self.pseudonyms is None else self.pseudonyms.hide_batch(users)

    def describe_unreadable(self, unreadable: Iterable[Unreadable]) -> list[str]:
        """Say what could not be read. Examples are left out if users have pseudonyms."""
        shows_example = self.pseudonyms is None
        sentences = []
        for part in unreadable:
            if part.count:
                sentences.append(part.sentence(shows_example=shows_example))
        return list(dict.fromkeys(sentences))

    def error_text(self, error: SourceError) -> str:
        """Return the error's text. If users have pseudonyms, the text has no example."""
        return error.shown if self.pseudonyms is None else str(error)


@immutable
class UnpairedSources:
    """The sources that only an unpaired comparison has. Its users have the column `ARM_COLUMN`.

    - ``lists`` gives the current lists of each arm. If the sources are joined, they are not used.
    - ``assigned`` gives the users that were assigned to an arm since the test began.
    - ``outcomes`` is None if the comparison names no outcomes.
    - ``listed`` gives the users of the log for both arms, if ``assigned`` reads another table.
    - ``served`` gives the users of the run with the arm of their newest list, if ``assigned`` reads
      another table.
    - ``log`` gives the users and all lists of a run, if one source can read them at the same time.
    """

    lists: Mapping[Arm, ports.Source]
    assigned: ports.AssignmentSource
    outcomes: OutcomeSources | None = None
    listed: Mapping[Arm, ports.UserSource] = field(default_factory=dict)
    served: ports.UserSource | None = None
    log: ports.LogSource | None = None


@immutable
class OutcomeSources:
    """The sources of outcomes of users, such as clicks.

    - ``users`` gives the users that were assigned since the test began, with the column
      `ARM_COLUMN`.
    - ``now`` gives the outcomes since the test began, and ``before`` those before the test.
    """

    users: ports.UserSource
    now: ports.OutcomeSource
    before: ports.OutcomeSource


@immutable
class SlotContext:
    """What each step of a run in one slot needs."""

    comparison: Comparison
    sources: ComparisonSources
    slot: datetime
    memory: Memory
    stopwatch: Stopwatch

    def seconds_left(self) -> float:
        """Return how many seconds are left until the run's deadline. Negative if it has passed."""
        return self.stopwatch.seconds_left(self.comparison.measuring.deadline)


@dataclass(slots=True, kw_only=True)
class SourceAnswers:
    """What the sources answered.

    - ``batches`` yields the answers in batches. Its argument limits the users in a batch.
    - ``measure_remotely`` yields measured parts of the run, if the users are measured on the
      machines that have their lists. In this case ``batches`` yields nothing.
    - ``unread_inputs`` are sentences about inputs that could not be read.
    - ``doubts`` are reasons why the noise floor is not judged.
    - ``weights`` and ``relevance`` are also in each batch.
    - ``seconds`` says for each pulled arm how long it took, or how long the run waited for it.
    - ``arrival_gaps`` says for each user how many seconds apart the baseline's list and another
      list arrived. The keys say whose list the other list is: ``candidate`` or ``noise_floor``.
      There is one array for each call of `pull_all`.
    - ``on_scores`` is called with the scores of each batch before the next batch is read.

    While batches are read, ``unread_inputs``, ``doubts``, ``seconds`` and ``arrival_gaps`` may
    grow: further users are asked (see `add`), or values that cannot be read are found.
    """

    asked: AskedUsers
    batches: Callable[[int], Iterator[UserBatch]] = lambda _: iter(())
    measure_remotely: Callable[[ports.Measurer, int], Iterator[bytes]] | None = None
    unread_inputs: list[str]
    weights: ItemWeights | None
    relevance: RelevanceTable | None
    seconds: dict[Arm, float] = field(default_factory=dict)
    arrival_gaps: dict[str, list[Floats]] = field(default_factory=dict)
    on_scores: Callable[[Scores], object] = ports.do_nothing
    doubts: list[RunReason] = field(default_factory=list)

    def add(self, further: SourceAnswers) -> None:
        """Add the answers of further users, except their batches."""
        append_new(self.unread_inputs, further.unread_inputs)
        append_new(self.doubts, further.doubts)
        for arm, seconds in further.seconds.items():
            self.seconds[arm] += seconds
        for name, gaps in further.arrival_gaps.items():
            self.arrival_gaps.setdefault(name, []).extend(gaps)


def append_new(items: list[_T], further: Iterable[_T]) -> None:
    """Append those further items that the list does not have yet."""
    for item in further:
        if item not in items:
            items.append(item)


@contextmanager
def join_all(context: SlotContext, source: ports.JoinedSource) -> Iterator[SourceAnswers]:
    """Yield one `SourceAnswers` for all users. The source joins both arms while it is read.

    Raises SourceError if the source fails.
    """
    sources = context.sources
    measuring = context.comparison.measuring
    request = JoinRequest(
        k=measuring.k,
        slot=context.slot,
        timeout_s=max(context.seconds_left(), _LEAST_TIMEOUT_S),
        max_segment_values=measuring.max_segment_values,
        shows_examples=sources.pseudonyms is None,
    )
    deadline = Deadline.after(request.timeout_s + SOURCE_GRACE_S)
    late_message = f"no answer when the run's deadline passed after {request.timeout_s:.1f} s"
    weights, relevance = _ask_weights_and_relevance(sources, context.slot)
    with source.read(request) as joined:
        errors = [call.wait(deadline, late_message) for call in (weights, relevance)]
        unread_inputs = list(filter(None, errors))
        append_new(unread_inputs, joined.unread_inputs)
        append_new(unread_inputs, sources.describe_unreadable(relevance.unreadable))

        def add_unreadable() -> None:
            # Only after the last user, the source has found all values that it cannot read.
            append_new(unread_inputs, sources.describe_unreadable(joined.unreadable))

        def read_batches(local: ports.JoinedAnswers, size: int) -> Iterator[UserBatch]:
            for batch in local.batches(size):
                hidden = sources.hide_ids(batch)
                yield replace(hidden, weights=weights.answer, relevance=relevance.answer)
            add_unreadable()

        def read_parts(
            remote: ports.RemoteAnswers, measurer: ports.Measurer, size: int
        ) -> Iterator[bytes]:
            yield from remote.measure(measurer, size)
            add_unreadable()

        answers = SourceAnswers(
            asked=joined.asked,
            unread_inputs=unread_inputs,
            weights=weights.answer,
            relevance=relevance.answer,
        )
        if isinstance(joined, ports.RemoteAnswers):
            answers.measure_remotely = partial(read_parts, joined)
        else:
            answers.batches = partial(read_batches, joined)
        yield answers


def draw_panel(
    comparison: Comparison,
    sources: ComparisonSources,
    slot: datetime,
    timeout_s: float,
) -> Panel:
    """Draw the panel from the list of all users. The panel has real ids, and not pseudonyms."""
    late_message = (
        f"users of {comparison.name}: the list of users did not arrive before the run's deadline"
    )
    table = ask_in_time(
        partial(sources.users.users, slot, sources.dimensions), timeout_s, late_message
    )
    if sources.pseudonyms is None or comparison.measuring.sample is None:
        return replace(draw_users(table, comparison, slot), unreadable=table.unreadable)
    # A draw depends on the ids. The users whose lists are stored are drawn by pseudonyms, so the
    # panel is drawn by pseudonyms too.
    pseudonyms = sources.pseudonyms.hide(table.users)
    panel = draw_users(replace(table, users=pseudonyms), comparison, slot)
    users = table.users[find_users(panel.users, pseudonyms)]
    return replace(panel, users=users, unreadable=table.unreadable)


def pull_all(
    comparison: Comparison,
    sources: ComparisonSources,
    panel: Panel,
    slot: datetime,
    timeout_s: float,
    memory: Memory = _NO_MEMORY,
) -> SourceAnswers:
    """Pull all answers at the same time, so that they can be compared.

    If the source of an arm fails or is late, all users count as failed for this arm. If another
    source fails or is late, a sentence in ``unread_inputs`` says so.
    """
    measuring = comparison.measuring
    request = _make_request(comparison, sources, panel, slot, timeout_s)
    begun_at = time.monotonic()
    deadline = Deadline(begun_at + request.timeout_s + SOURCE_GRACE_S)
    late_message = f"no answer when the run's deadline passed after {request.timeout_s:.1f} s"

    # All calls begin before the first wait, so that the answers are from the same moment.
    calls, second_baseline = _ask_for_lists(comparison, sources, request)
    weights, relevance = _ask_weights_and_relevance(sources, slot)
    pulls = {}
    for arm, call in calls.items():
        call.wait(deadline, late_message)
        pulls[arm] = call.answer or Pull.failed(panel.users, call.failure, call.note)
    waited_s = time.monotonic() - begun_at
    # Each call returns a sentence if its source failed, else None.
    sentences = [
        call.wait(deadline, late_message) for call in (weights, relevance, second_baseline)
    ]
    sentences += [describe_cached(arm, arm_pull.rankings) for arm, arm_pull in pulls.items()]
    unreadable = [*panel.unreadable, *relevance.unreadable]
    for arm_pull in pulls.values():
        unreadable += arm_pull.unreadable
    unreadable += second_baseline.unreadable
    users = UserBatch(
        panel=panel,
        baseline=pulls[Arm.BASELINE],
        candidate=pulls[Arm.CANDIDATE],
        weights=weights.answer,
        relevance=relevance.answer,
        second_baseline=second_baseline.answer,
    )
    users = sources.hide_ids(users)
    if measuring.noise_floor is NoiseFloor.TEMPORAL and memory.last_lists is not None:
        last_pull = Pull(rankings=memory.last_lists.baseline, failures={})
        users = replace(users, second_baseline=last_pull)
    baseline = pulls[Arm.BASELINE].rankings
    candidate = pulls[Arm.CANDIDATE].rankings
    arrival_gaps = {Arm.CANDIDATE.value: [gaps_between(baseline, candidate)]}
    doubts = []
    if second_baseline.answer is not None:
        second_lists = second_baseline.answer.rankings
        arrival_gaps["noise_floor"] = [gaps_between(baseline, second_lists)]
        if measuring.noise_floor is NoiseFloor.SERVE:
            doubt = doubt_floor(baseline, second_lists, memory.floor_overlaps)
            if doubt is not None:
                # The second lists may be copies, so there is no noise floor.
                users = replace(users, second_baseline=None)
                doubts.append(doubt)
    return SourceAnswers(
        asked=AskedUsers(count=len(panel.segments[ALL]), segments=tuple(panel.segments)),
        batches=partial(split_users, users),
        unread_inputs=[*filter(None, sentences), *sources.describe_unreadable(unreadable)],
        doubts=doubts,
        arrival_gaps=arrival_gaps,
        weights=weights.answer,
        relevance=relevance.answer,
        # If a call never returned, this is how long the run waited.
        seconds={arm: min(call.took_s, waited_s) for arm, call in calls.items()},
    )


def _make_request(
    comparison: Comparison,
    sources: ComparisonSources,
    panel: Panel,
    slot: datetime,
    timeout_s: float,
) -> PullRequest:
    """Return the request for the lists of all users of the panel."""
    measuring = comparison.measuring
    family = comparison.family or comparison.name
    # The source draws the order in which it asks users from this seed. All comparisons of a family
    # have the same order. The first user is a part of the seed, because each round of
    # `pull_until_certain` begins with another user, and so gets another order.
    order_seed = (str(measuring.seed), family, slot.isoformat(), *panel.users[:1])
    return PullRequest(
        users=panel.users,
        k=measuring.k,
        slot=slot,
        timeout_s=max(timeout_s, _LEAST_TIMEOUT_S),
        together="\0".join(order_seed),
        on_progress=sources.on_progress,
        # A run that begins again after an interruption uses stored answers, if they are not older
        # than the longest run.
        answers_valid_s=measuring.deadline.total_seconds(),
    )


def ask_in_time(read: Callable[[], _T], timeout_s: float, late_message: str) -> _T:
    """Ask a source. Raises SourceError with ``late_message`` if it does not answer in time."""
    try:
        return BackgroundCall(read, name="source").wait(Deadline.after(timeout_s))
    except OverdueError:
        raise SourceError(late_message, permanent=False) from None


def _ask_for_lists(
    comparison: Comparison, sources: ComparisonSources, request: PullRequest
) -> tuple[dict[Arm, AskedSource[Pull]], AskedSource[Pull]]:
    """Ask both arms for lists, and ask for the second lists of the noise floor."""
    calls: dict[Arm, AskedSource[Pull]] = {}
    for arm, source, name in zip(
        Arm, (sources.baseline, sources.candidate), comparison.arms, strict=True
    ):
        answers_path = sources.answers_path(request.slot, name)
        pull = methodcaller("pull", replace(request, what=arm, answers_path=answers_path))
        calls[arm] = AskedSource(f"{comparison.name}-{arm}", source, pull, sources.error_text)
    floor_request = replace(
        request,
        what="noise floor",
        answers_path=sources.answers_path(request.slot, "noise floor"),
        # A cache would return the baseline's first lists again, and the noise floor would be 0.
        is_uncached=comparison.measuring.noise_floor is NoiseFloor.SERVE,
    )
    pull = methodcaller("pull", floor_request)
    return calls, AskedSource("noise_floor", sources.second_baseline, pull, sources.error_text)


def _ask_weights_and_relevance(
    sources: ComparisonSources, slot: datetime
) -> tuple[AskedSource[ItemWeights], AskedSource[RelevanceTable]]:
    return (
        AskedSource(
            "item_weights", sources.weights, methodcaller("weights", slot), sources.error_text
        ),
        AskedSource(
            "relevance", sources.relevance, methodcaller("relevance", slot), sources.error_text
        ),
    )


class AskedSource(Generic[_T]):
    """A source that is read in the background. If the source is None, there is no answer.

    After `wait`:

    - ``note`` says why the source failed. None if it did not fail.
    - ``failure`` is the reason that the coverage counts if the source failed.
    - ``took_s`` is the time that the source took to answer or to fail.
    """

    def __init__(
        self,
        what: str,
        source: S | None,
        read: Callable[[S], _T | None],
        error_text: Callable[[SourceError], str] = str,
    ) -> None:
        """Begin to read the source. ``what`` names it, and ``error_text`` describes errors."""
        self.answer: _T | None = None
        self.note: str | None = None
        self.failure = CoverageReason.UNAVAILABLE  # used only after a failure
        self.took_s = inf
        self._what = what
        self._error_text = error_text
        self._call = None
        if source is not None:
            self._call = BackgroundCall(partial(self._read, source, read), name=what)

    def _read(self, source: S, read: Callable[[S], _T | None]) -> _T | None:
        begun_at = time.monotonic()
        try:
            return read(source)
        finally:
            self.took_s = time.monotonic() - begun_at

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """The parts of the answer that could not be read."""
        return getattr(self.answer, "unreadable", ())

    def wait(self, deadline: Deadline, late_message: str) -> str | None:
        """Wait for the answer. Returns a sentence if the source failed or was late, else None."""
        if self._call is None:
            return None
        try:
            self.answer = self._call.wait(deadline)
        except SourceError as error:
            self.note = self._error_text(error)
        except OverdueError:
            self.note = late_message
            self.failure = CoverageReason.TIMEOUT
        if self.note is None:
            return None
        return f"{self._what}: {self.note}"
