"""Gets the answers of all sources of a run: joined by a source, pulled once, or pulled in rounds."""

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
from monitor.model.arrays import Floats
from monitor.model.memory import Memory
from monitor.model.rankings import ALL, Panel, UserBatch
from monitor.model.rules import Comparison
from monitor.model.runs import Scores
from monitor.model.statistics import NoiseFloor
from monitor.pipeline.pull import Answers, Arms, draw_panel, join_all, pull_all
from monitor.pipeline.stopwatch import Stopwatch
from monitor.pipeline.user_batches import cut_panel


@contextmanager
def open_answers(
    comparison: Comparison,
    arms: Arms,
    slot: datetime,
    watch: Stopwatch,
    memory: Memory,
) -> Iterator[Answers]:
    """Yield all answers. If no source joins them, a panel is drawn and its lists are pulled."""
    sample = comparison.measuring.sample
    limit = comparison.measuring.deadline
    needs_last_lists = (
        comparison.measuring.noise_floor is NoiseFloor.TEMPORAL and memory.last_lists is not None
    )
    if arms.joined is not None and sample is None and not needs_last_lists:
        with ExitStack() as reading:
            with watch.stage("users"):
                joined = join_all(comparison, arms, arms.joined, slot, watch.seconds_left(limit))
                answers = reading.enter_context(joined)
            yield answers
        return
    with watch.stage("users"):
        panel = draw_panel(comparison, arms, slot, watch.seconds_left(limit))
    with watch.stage("pull"):
        stops_early = sample is not None and sample.stops_early
        pull = pull_until_certain if stops_early else pull_all
        answers = pull(comparison, arms, panel, slot, watch.seconds_left(limit), memory)
    yield answers


def pull_until_certain(
    comparison: Comparison,
    arms: Arms,
    panel: Panel,
    slot: datetime,
    timeout_s: float,
    memory: Memory,
) -> Answers:
    """Pull answers as `pull_all` does, but in rounds, until the verdict of each rule is certain.

    All rounds together may take ``timeout_s`` seconds.
    """
    # This is imported here, because Spark's executors import this module but have no scipy.
    from monitor.statistics.sequential.gate import is_certain, round_ends  # noqa: PLC0415

    deadline = Deadline.after(timeout_s)
    ends = round_ends(len(panel))
    seed = (comparison.measuring.seed, int(slot.timestamp()))
    order = np.random.default_rng(seed).permutation(len(panel))
    users = panel.users if arms.pseudonyms is None else arms.pseudonyms.hide(panel.users)
    ordered = cut_panel(replace(panel, users=users), order)
    undefined = np.full(len(panel), np.nan)
    scores = defaultdict[str, Floats](undefined.copy)
    watched = [
        (rule, ordered.segments.get(segment, order[:0]))
        for rule in comparison.judging.similarity_rules
        for segment in segments_of(rule, ordered.segments, ())
    ]

    def ask(start: int, end: int, asked_arms: Arms) -> Answers:
        part = cut_panel(panel, np.sort(order[start:end]))
        return pull_all(comparison, asked_arms, part, slot, deadline.remaining_s, memory)

    def add_scores(batch: Scores) -> None:
        rows = find_users(batch.users, ordered.users)
        for metric, values in batch.by_metric.items():
            scores[metric][rows] = values

    def are_all_certain(asked: int) -> bool:
        """Return whether ``asked`` users are enough for each rule. False if there are no rules."""
        return bool(watched) and all(
            is_certain(rule, scores.get(rule.metric, undefined)[rows[rows < asked]], len(rows))
            for rule, rows in watched
        )

    first = ask(0, ends[0], arms)
    lacks, seconds, gaps = dict.fromkeys(first.lacks), {**first.seconds}, {**first.gaps}
    doubts = dict.fromkeys(first.doubts)

    def batches(size: int) -> Iterator[UserBatch]:
        yield from first.batches(size)
        for start, end in pairwise(ends):
            if are_all_certain(start):
                return
            answers = ask(start, end, replace(arms, weights=None, relevance=None))
            lacks.update(dict.fromkeys(answers.lacks))
            doubts.update(dict.fromkeys(answers.doubts))
            seconds.update({arm: seconds[arm] + more for arm, more in answers.seconds.items()})
            for what, more_gaps in answers.gaps.items():
                gaps[what] = gaps.get(what, []) + more_gaps
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
        scored=add_scores,
    )
