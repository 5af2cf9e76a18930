"""Gets the answers of a run's sources: joined by a source, pulled once, or pulled in rounds."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import numpy as np

from monitor.alerts.rule_evaluation import segments_of
from monitor.boundary.deadline import Deadline
from monitor.measures.pairing.ids import find_users
from monitor.model.arrays import Floats, Rows
from monitor.model.errors import SourceError
from monitor.model.memory import Memory
from monitor.model.ports import Source
from monitor.model.rankings import ALL, Arm, AskedUsers, Panel, Pull, UserBatch
from monitor.model.rules import Comparison, SimilarityRule
from monitor.model.runs import PullRequest, Scores
from monitor.model.statistics import NoiseFloor
from monitor.model.unpaired import ARM_COLUMN
from monitor.pipeline.pull import Answers, Arms, UnpairedArms, draw_panel, join_all, pull_all
from monitor.pipeline.stopwatch import Stopwatch
from monitor.pipeline.user_batches import PanelPull, cut_panel
from monitor.statistics.sequential.gate import is_certain, round_ends


@contextmanager
def open_answers(
    comparison: Comparison,
    arms: Arms,
    slot: datetime,
    watch: Stopwatch,
    memory: Memory,
) -> Iterator[Answers]:
    """Yield all answers. If no source joins them, a panel is drawn and its lists are pulled.

    Raises SourceError if the users cannot be read.
    """
    sample = comparison.measuring.sample
    limit = comparison.measuring.deadline
    needs_last_lists = (
        comparison.measuring.noise_floor is NoiseFloor.TEMPORAL and memory.last_lists is not None
    )
    if arms.joined is not None and sample is None and not needs_last_lists:
        with ExitStack() as reading:
            # The stage ends before the answers are read.
            with watch.stage("users"):
                joined = join_all(comparison, arms, arms.joined, slot, watch.seconds_left(limit))
                answers = reading.enter_context(joined)
            yield answers
        return
    unpaired = arms.unpaired
    if unpaired is not None:
        arms = replace(arms, dimensions=(*arms.dimensions, ARM_COLUMN))
    with watch.stage("users"):
        panel = draw_panel(comparison, arms, slot, watch.seconds_left(limit))
    if unpaired is not None:
        yield _pull_arms(comparison, arms, unpaired, panel, slot, watch)
        return
    with watch.stage("pull"):
        stops_early = sample is not None and sample.stops_early
        pull = pull_until_certain if stops_early else pull_all
        answers = pull(comparison, arms, panel, slot, watch.seconds_left(limit), memory)
    yield answers


def _pull_arms(
    comparison: Comparison,
    arms: Arms,
    unpaired: UnpairedArms,
    panel: Panel,
    slot: datetime,
    watch: Stopwatch,
) -> Answers:
    """Pull the lists of users that are served by one arm only. One arm is read after the other.

    Raises SourceError if an arm has no users.
    """
    lacks: dict[str, None] = {}
    segments = dict(panel.segments)
    rows_of_arm = {}
    for arm in Arm:
        rows = segments.pop(f"{ARM_COLUMN}={arm}", None)
        if rows is None:
            msg = f"the {arm} served no user in this run: check `served`, and check the log"
            raise SourceError(msg, permanent=False)
        rows_of_arm[arm] = rows
    everybody = replace(panel, segments=segments)
    before = _PulledOnce(arms.baseline, everybody)

    def batches(size: int) -> Iterator[UserBatch]:
        for arm, rows in rows_of_arm.items():
            users = cut_panel(everybody, rows)
            before.rows = rows
            of_arm = replace(arms, baseline=before, candidate=unpaired.lists[arm])
            left_s = watch.seconds_left(comparison.measuring.deadline)
            answers = pull_all(comparison, of_arm, users, slot, left_s)
            lacks.update(dict.fromkeys(answers.lacks))
            for batch in answers.batches(size):
                yield replace(batch, arm=arm)

    return Answers(
        asked=AskedUsers(count=len(panel), segments=tuple(segments)),
        batches=batches,
        lacks=lacks.keys(),
        weights=None,
        relevance=None,
    )


class _PulledOnce:
    """A source of lists that is asked once for all users of a panel. Port: Source.

    ``rows`` are the rows of the users that are asked for next.
    """

    def __init__(self, source: Source, panel: Panel) -> None:
        self.rows: Rows = np.arange(len(panel))
        self._source = source
        self._panel = panel
        self._pulled: PanelPull | None = None

    def pull(self, request: PullRequest) -> Pull:
        """The lists of the users in ``rows``."""
        if self._pulled is None:
            everybody = replace(request, users=self._panel.users)
            self._pulled = PanelPull(self._panel, self._source.pull(everybody))
        return self._pulled.take(self.rows)


def pull_until_certain(
    comparison: Comparison,
    arms: Arms,
    panel: Panel,
    slot: datetime,
    timeout_s: float,
    memory: Memory,
) -> Answers:
    """Pull answers as `pull_all` does, but in rounds, until the verdict of each rule is certain.

    All rounds together may take ``timeout_s`` seconds. A round asks the next users of the panel in
    random order, and begins when the scores of the earlier rounds have been computed.
    """
    deadline = Deadline.after(timeout_s)
    ends = round_ends(len(panel))
    seed = (comparison.measuring.seed, int(slot.timestamp()))
    order = np.random.default_rng(seed).permutation(len(panel))
    users = panel.users if arms.pseudonyms is None else arms.pseudonyms.hide(panel.users)
    watched = _WatchedScores(comparison, cut_panel(replace(panel, users=users), order))

    def ask(start: int, end: int, asked_arms: Arms) -> Answers:
        part = cut_panel(panel, np.sort(order[start:end]))
        return pull_all(comparison, asked_arms, part, slot, deadline.remaining_s, memory)

    first = ask(0, ends[0], arms)
    # The later rounds add to these.
    lacks = dict.fromkeys(first.lacks)
    doubts = dict.fromkeys(first.doubts)
    seconds = {**first.seconds}
    gaps = {**first.gaps}

    def batches(size: int) -> Iterator[UserBatch]:
        yield from first.batches(size)
        for start, end in pairwise(ends):
            if watched.are_certain(start):
                return
            # Weights and relevance are the same in each round, so they are read once.
            answers = ask(start, end, replace(arms, weights=None, relevance=None))
            lacks.update(dict.fromkeys(answers.lacks))
            doubts.update(dict.fromkeys(answers.doubts))
            for arm, seconds_of_round in answers.seconds.items():
                seconds[arm] += seconds_of_round
            for what, gaps_of_round in answers.gaps.items():
                gaps[what] = gaps.get(what, []) + gaps_of_round
            for batch in answers.batches(size):
                yield replace(batch, weights=first.weights, relevance=first.relevance)

    return replace(
        first,
        asked=replace(first.asked, count=len(panel.segments[ALL])),
        batches=batches,
        lacks=lacks.keys(),
        doubts=doubts.keys(),
        seconds=seconds,
        gaps=gaps,
        scored=watched.add,
    )


class _WatchedScores:
    """The scores of a panel's users that the rules judge. The users are asked in this order."""

    def __init__(self, comparison: Comparison, panel: Panel) -> None:
        self._panel = panel
        self._unknown = np.full(len(panel), np.nan)
        self._by_metric = defaultdict[str, Floats](self._unknown.copy)
        self._rules: list[tuple[SimilarityRule, Rows]] = []
        no_rows = np.empty(0, dtype=np.intp)
        for rule in comparison.judging.similarity_rules:
            for segment in segments_of(rule, panel.segments, ()):
                self._rules.append((rule, panel.segments.get(segment, no_rows)))

    def add(self, scores: Scores) -> None:
        """Add the scores of some users."""
        rows = find_users(scores.users, self._panel.users)
        for metric, values in scores.by_metric.items():
            self._by_metric[metric][rows] = values

    def are_certain(self, asked: int) -> bool:
        """Return whether the first ``asked`` users decide each rule. False without rules."""
        for rule, rows in self._rules:
            values = self._by_metric.get(rule.metric, self._unknown)
            if not is_certain(rule, values[rows[rows < asked]], len(rows)):
                return False
        return bool(self._rules)
