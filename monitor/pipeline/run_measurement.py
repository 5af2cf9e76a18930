"""The first half of a run: pull, pair, score, summarize, measure the arms. Nothing here judges or stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.arm_metrics import ArmNeed, LastLists, count_listed, measure_arms, parse_arm_metric
from monitor.metrics import Metric, score_all
from monitor.model import (
    Arm,
    ArmScore,
    Comparison,
    Coverage,
    CoverageReason,
    Keep,
    KeptLists,
    MeasuredRun,
    MeasuringPlan,
    Memory,
    NoiseFloor,
    Pairing,
    Panel,
    RankingTable,
    Scores,
)
from monitor.model.arrays import Floats
from monitor.pairing import keep_lists, unweighted_note
from monitor.pairing.ids import codes_of, find_users
from monitor.pipeline.pull import Answers, Arms, draw_panel, pair_answers, pull_all, pull_titles
from monitor.pipeline.run_explanation import add_titles, explain_run, explained_items
from monitor.pipeline.score import (
    add_floor,
    gather_evidence,
    last_baseline,
    measure_floor,
    scorable_metrics,
    summarize_scores,
)
from monitor.ports import Clock
from monitor.sampling import kept_among
from monitor.summaries import SegmentRows, rows_of_segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a run measured, and in words what it could not.

    ``troubles`` are sentences about arms that could not be read as a whole; ``notes``: of a reason, what happened first;
    ``left_out`` are sentences about what was not measured although it is wanted.
    """

    run: MeasuredRun
    coverage: Coverage
    troubles: tuple[str, ...]
    notes: Mapping[tuple[Arm, CoverageReason], str]
    left_out: tuple[str, ...]


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent by stage."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the stage."""
        start = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - start


def measure_slot(comparison: Comparison, arms: Arms, slot: datetime, memory: Memory, watch: Stopwatch) -> Measurement:
    """Measure one slot. SourceError when the users cannot be read; what else goes wrong is in the coverage."""
    measuring = comparison.measuring
    deadline = watch.clock.monotonic() + measuring.deadline.total_seconds()
    with watch.stage("users"):
        panel = draw_panel(comparison, arms, slot, deadline - watch.clock.monotonic())
    with watch.stage("pull"):
        # Labels that are read too early would be taken for all there are.
        asked = arms if watch.clock.now() >= slot + measuring.relevance_after else replace(arms, relevance=None)
        answers = pull_all(comparison, asked, panel, slot, deadline - watch.clock.monotonic())
    with watch.stage("pair"):
        pairing = pair_answers(panel, answers, measuring.k)
        troubles, lacks, notes, seconds = answers.troubles, answers.lacks, answers.notes, answers.seconds
    with watch.stage("score"):
        scored = _score(measuring, panel, pairing, answers, memory.last_lists)
        metrics, scores = scored.metrics, scored.scores
        del answers  # the pulled lists are the largest thing that a run holds
    with watch.stage("summarize"):
        segments = rows_of_segments(panel, pairing.panel_rows)
        summaries = summarize_scores(comparison.judging.similarity_rules, measuring.k, segments, scores, metrics, scored.bounds)
        evidence = gather_evidence(comparison, pairing, scores, metrics)
    with watch.stage("arms"):
        catalogue_size = max(measuring.catalogue_size or 0, count_listed(pairing.batch)) or None
        arm_scores = _measure_arms(measuring, pairing, scores, segments, memory.last_lists)
        lists = _keep_lists(comparison, pairing, scores.users, segments)
    with watch.stage("explain"):
        split, found = explain_run(comparison, pairing, scores.users, segments, metrics, memory.splits)
        seconds_left = deadline - watch.clock.monotonic()
        titles, untitled = pull_titles(comparison, arms, slot, explained_items(found), seconds_left)
    measured = MeasuredRun(
        coverage=pairing.coverage,
        summaries=summaries,
        scores=scores,
        evidence=evidence,
        arm_scores=arm_scores,
        catalogue_size=catalogue_size,
        lists=lists,
        is_labelled=pairing.batch.labels is not None,
        split=split,
        explanation=add_titles(found, titles),
        pull_seconds=seconds,
    )
    unweighted = unweighted_note(pairing.batch)
    left_out = (*lacks, *scored.left_out, *filter(None, (pairing.unlike_ids, unweighted, untitled)))
    return Measurement(run=measured, coverage=pairing.coverage, troubles=troubles, notes=notes, left_out=left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    metrics: tuple[Metric, ...]
    scores: Scores
    bounds: Mapping[str, tuple[float, float]]
    left_out: tuple[str, ...]


def _score(measuring: MeasuringPlan, panel: Panel, pairing: Pairing, answers: Answers, last: KeptLists | None) -> _Scored:
    metrics, unmeasured = scorable_metrics(measuring, pairing.batch)
    by_metric = score_all(pairing.batch, metrics)
    floor, no_floor = _measure_floor(measuring, panel, pairing, answers, metrics, last)
    by_metric, bounds = add_floor(by_metric, floor, metrics, measuring.k)
    scores = Scores(users=panel.users[pairing.panel_rows], by_metric=by_metric)
    return _Scored(metrics=metrics, scores=scores, bounds=bounds, left_out=(*no_floor, *unmeasured))


def _measure_floor(
    measuring: MeasuringPlan,
    panel: Panel,
    pairing: Pairing,
    answers: Answers,
    metrics: Sequence[Metric],
    last: KeptLists | None,
) -> tuple[dict[str, Floats], tuple[str, ...]]:
    recalled, lack = last_baseline(measuring.noise_floor, last)
    again = answers.again if recalled is None else recalled
    if again is None:
        return {}, (lack,) if lack else ()
    return measure_floor(panel, pairing, (answers.baseline, again), measuring.k, metrics, answers.weights), ()


def _keep_lists(comparison: Comparison, pairing: Pairing, users: pd.Index[str], segments: SegmentRows) -> KeptLists | None:
    keep = comparison.measuring.keep_lists
    if keep is Keep.NONE:
        return None
    return keep_lists(pairing, users, segments, None if keep is Keep.ALL else kept_among(users, keep, comparison))


def _measure_arms(
    measuring: MeasuringPlan, pairing: Pairing, scores: Scores, segments: SegmentRows, last: KeptLists | None
) -> tuple[ArmScore, ...]:
    if not measuring.arm_metrics:
        return ()
    return measure_arms(
        pairing.batch,
        segments,
        [parse_arm_metric(name) for name in measuring.arm_metrics],
        catalogue_size=measuring.catalogue_size,
        last=None if last is None else recode_last_lists(last, scores.users, pairing, measuring.k),
    )


def needs_last(measuring: MeasuringPlan) -> bool:
    """Whether the noise floor or an arm-wide metric looks back at the last run."""
    return measuring.noise_floor is NoiseFloor.TEMPORAL or any(
        parse_arm_metric(name).need is ArmNeed.KEEP_LISTS for name in measuring.arm_metrics
    )


def recode_last_lists(last: KeptLists, users: pd.Index[str], pairing: Pairing, k: int) -> Mapping[Arm, LastLists]:
    """Both arms' last lists, cut to k, for these users, one a row of the pairing."""
    rows = find_users(users, last.baseline.users)
    return {
        arm: _recode(table, rows, pairing.vocabulary, k)
        for arm, table in ((Arm.BASELINE, last.baseline), (Arm.CANDIDATE, last.candidate))
    }


def _recode(table: RankingTable, rows: npt.NDArray[np.intp], vocabulary: pd.Index | None, k: int) -> LastLists:
    flat = np.append(codes_of(table.items, vocabulary), np.int32(-1))  # the last one stands for places without an item
    lengths = np.append(np.minimum(np.diff(table.offsets), k), 0)[rows]  # row -1, a user who was not there, had no list
    starts = np.append(table.offsets[:-1], 0)[rows]
    places = np.arange(k)
    is_inside = places < lengths[:, None]
    codes = flat[np.where(is_inside, starts[:, None] + places, len(flat) - 1)]
    return LastLists(codes=codes, lengths=lengths.astype(np.int32), exposed=_top(table, flat, k))


def _top(table: RankingTable, flat: npt.NDArray[np.int32], k: int) -> npt.NDArray[np.int32]:
    # What stood in the first k places of any list.
    counts = np.diff(table.offsets)
    places = np.arange(len(flat) - 1) - np.repeat(table.offsets[:-1], counts)
    return flat[:-1][places < k]
