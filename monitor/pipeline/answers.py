"""Gets the answers of a run's sources: joined by a source, pulled once, or pulled in rounds."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np

from monitor.alerts.rule_evaluation import segments_of
from monitor.measures.pairing.ids import find_users
from monitor.model.arrays import Floats, Rows
from monitor.model.errors import SourceError
from monitor.model.ports import Source
from monitor.model.rankings import ALL, Arm, AskedUsers, Panel, Pull, UserBatch
from monitor.model.rules import Comparison, SimilarityRule
from monitor.model.runs import PullRequest, Scores
from monitor.model.statistics import NoiseFloor
from monitor.model.unpaired import ARM_COLUMN
from monitor.pipeline.pull import (
    ComparisonSources,
    SlotContext,
    SourceAnswers,
    UnpairedSources,
    append_new,
    draw_panel,
    join_all,
    pull_all,
)
from monitor.pipeline.user_batches import PanelPull, cut_panel
from monitor.statistics.sequential.gate import is_certain, round_ends


@contextmanager
def open_answers(context: SlotContext) -> Iterator[SourceAnswers]:
    """Yield all answers. If no source joins both arms, a panel is drawn and its lists are pulled.

    ``sources.joined`` is a source that joins both arms. It always returns all users of this run, so
    it is not used for a sample, or if this run needs the lists of the last run.

    Raises SourceError if the users cannot be read.
    """
    measuring = context.comparison.measuring
    sources = context.sources
    sample = measuring.sample
    needs_last_lists = (
        measuring.noise_floor is NoiseFloor.TEMPORAL and context.memory.last_lists is not None
    )
    needs_panel = sample is not None or needs_last_lists
    if sources.joined is not None and not needs_panel:
        with ExitStack() as reading:
            # The stage contains only the opening. The caller reads the answers after the stage.
            with context.stopwatch.stage("users"):
                answers = reading.enter_context(join_all(context, sources.joined))
            yield answers
        return
    if sources.unpaired is not None:
        sources = replace(sources, dimensions=(*sources.dimensions, ARM_COLUMN))
    with context.stopwatch.stage("users"):
        panel = draw_panel(context.comparison, sources, context.slot, context.seconds_left())
    with context.stopwatch.stage("pull"):
        if sources.unpaired is not None:
            answers = _pull_arms(context, sources.unpaired, panel)
        elif sample is not None and sample.stops_early:
            answers = pull_until_certain(context, panel)
        else:
            answers = _pull_panel(context, sources, panel)
    yield answers


def _pull_panel(context: SlotContext, sources: ComparisonSources, panel: Panel) -> SourceAnswers:
    timeout_s = context.seconds_left()
    return pull_all(context.comparison, sources, panel, context.slot, timeout_s, context.memory)


def _pull_arms(context: SlotContext, unpaired: UnpairedSources, panel: Panel) -> SourceAnswers:
    """Pull the lists of users that are served by one arm only. One arm is read after the other.

    Raises SourceError if an arm has no users.
    """
    segments = dict(panel.segments)
    rows_of_arm = {}
    for arm in Arm:
        rows = segments.pop(f"{ARM_COLUMN}={arm}", None)
        if rows is None:
            msg = f"the {arm} served no user in this run: check `served`, and check the log"
            raise SourceError(msg, permanent=False)
        rows_of_arm[arm] = rows
    panel_of_both_arms = replace(panel, segments=segments)
    earlier_lists = _PulledOnce(context.sources.baseline, panel, rows_of_arm.values())

    def pull_arm(arm: Arm, sources: ComparisonSources) -> SourceAnswers:
        # A pair has the user's pre-test list and current list. The candidate's side of the pair has
        # the current list, even for users of the baseline.
        sources = replace(sources, baseline=earlier_lists, candidate=unpaired.lists[arm])
        arm_panel = cut_panel(panel_of_both_arms, rows_of_arm[arm])
        return _pull_panel(context, sources, arm_panel)

    baseline_answers = pull_arm(Arm.BASELINE, context.sources)
    unread_inputs = baseline_answers.unread_inputs
    weights = baseline_answers.weights

    def batches(size: int) -> Iterator[UserBatch]:
        for batch in baseline_answers.batches(size):
            yield replace(batch, arm=Arm.BASELINE)
        # The memory of the baseline's lists must be free before the candidate's lists are pulled.
        del baseline_answers.batches
        # The weights are the same for both arms, so they are read once.
        answers = pull_arm(Arm.CANDIDATE, replace(context.sources, weights=None))
        append_new(unread_inputs, answers.unread_inputs)
        for batch in answers.batches(size):
            yield replace(batch, arm=Arm.CANDIDATE, weights=weights)

    return SourceAnswers(
        asked=AskedUsers(count=len(panel), segments=tuple(segments)),
        batches=batches,
        unread_inputs=unread_inputs,
        weights=weights,
        relevance=None,
    )


class _PulledOnce:
    """Lists that are pulled once for all users of a panel, and returned in parts. Port: Source.

    Each call of `pull` is for the next of ``parts``, which are positions in the panel. Either arm
    may have served a pre-test list. So a pull for each arm would read all pre-test lists twice.
    """

    def __init__(self, source: Source, panel: Panel, parts: Iterable[Rows]) -> None:
        self._source = source
        self._panel = panel
        self._parts = deque(parts)
        self._pulled: PanelPull | None = None

    def pull(self, request: PullRequest) -> Pull:
        """Return the lists of the users of the next part. The request is for these users."""
        positions = self._parts.popleft()
        if self._pulled is None:
            pull = self._source.pull(replace(request, users=self._panel.users))
            self._pulled = PanelPull(self._panel, pull)
        part = self._pulled.take(positions)
        if not self._parts:
            self._pulled = None  # its memory is free now
        return part


def pull_until_certain(context: SlotContext, panel: Panel) -> SourceAnswers:
    """Pull answers in rounds, until the verdict of each rule is certain.

    A round requests the lists of the next users of the panel, in random order. It begins when the
    scores of the earlier rounds have been computed. See also `pull_all`.
    """
    sources = context.sources
    users_after_round = round_ends(len(panel))  # the number of users asked so far, by round
    seed = (context.comparison.measuring.seed, int(context.slot.timestamp()))
    order = np.random.default_rng(seed).permutation(len(panel))
    ids = panel.users if sources.pseudonyms is None else sources.pseudonyms.hide(panel.users)
    ordered_panel = cut_panel(replace(panel, users=ids), order)
    judged_scores = _JudgedScores(context.comparison, ordered_panel)

    def pull_round(start: int, end: int, sources: ComparisonSources) -> SourceAnswers:
        part = cut_panel(panel, np.sort(order[start:end]))
        return _pull_panel(context, sources, part)

    answers = pull_round(0, users_after_round[0], sources)
    first_batches = answers.batches

    def batches(size: int) -> Iterator[UserBatch]:
        yield from first_batches(size)
        for start, end in pairwise(users_after_round):
            if judged_scores.are_certain(start):
                return
            # Weights and relevance are the same in each round, so they are read once.
            further = pull_round(start, end, replace(sources, weights=None, relevance=None))
            answers.add(further)
            for batch in further.batches(size):
                yield replace(batch, weights=answers.weights, relevance=answers.relevance)

    answers.asked = replace(answers.asked, count=len(panel.segments[ALL]))
    answers.batches = batches
    # The accumulator calls this after each batch, so `are_certain` knows all earlier scores.
    answers.on_scores = judged_scores.add
    return answers


class _JudgedScores:
    """The scores that rules judge. The panel has the order in which its users are asked."""

    def __init__(self, comparison: Comparison, panel: Panel) -> None:
        self._panel = panel
        # The scores of a metric begin as a copy of this array. `add` fills in the scores.
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
            asked_rows = rows[rows < asked]
            if not is_certain(rule, values[asked_rows], len(rows)):
                return False
        return bool(self._rules)
