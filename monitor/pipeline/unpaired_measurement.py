"""Measures a run in which each user is served by one arm only.

A user's list of now is compared with the user's list of before the test. So a pair has two lists of
one user, and not of two arms. The users of both arms go through one accumulator. There each segment
is divided into the users of the baseline and the users of the candidate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import isfinite

import numpy as np
import pandas as pd

from monitor.measures.metrics import Metric, parse
from monitor.measures.pairing.list_tables import rows_by_segment, user_index
from monitor.measures.sampling import hash_users
from monitor.model.errors import SourceError
from monitor.model.memory import Memory
from monitor.model.model_versions import follow
from monitor.model.rankings import (
    ALL,
    Arm,
    AskedUsers,
    Coverage,
    CoverageNote,
    CoverageReason,
    CoverageRow,
    UserBatch,
)
from monitor.model.rules import Comparison, Keep, MeasuringPlan
from monitor.model.runs import ArmScore, Evidence, Histogram, KeptLists, Scores, Summary
from monitor.model.statistics import SELF_SERIES, DerivedMetric, Statistic, parse_derived
from monitor.model.unpaired import ArmCounts, ArmGap, AssignedUsers, UnpairedFindings
from monitor.pipeline.accumulator import RunAccumulator, Sample, users_in_sample
from monitor.pipeline.answers import open_answers
from monitor.pipeline.earlier_lists import measure_arm_scores, recode_earlier
from monitor.pipeline.outcomes import measure_outcomes, summarize_outcomes
from monitor.pipeline.pull import Arms, UnpairedArms, ask_in_time
from monitor.pipeline.run_explanation import note_sample
from monitor.pipeline.run_measurement import Measurement
from monitor.pipeline.run_scores import RunScores, draw_scores
from monitor.pipeline.score import leading_metric, wanted_statistics
from monitor.pipeline.stopwatch import Stopwatch
from monitor.pipeline.titles import add_titles
from monitor.pipeline.unpaired_explanation import (
    DividedSample,
    compare_lists,
    divided,
    explain_unpaired,
)
from monitor.pipeline.user_batches import leave_out, users_at_once
from monitor.statistics.unpaired.far import far_share
from monitor.statistics.unpaired.gaps import Gap, count_far, mean_gap, share_gap
from monitor.statistics.unpaired.split import log_evidence
from monitor.texts.unpaired import write_changed_split

Notes = dict[tuple[Arm, CoverageReason], CoverageNote]


def measure_unpaired(  # noqa: PLR0913 - the last two are for tests
    comparison: Comparison,
    arms: Arms,
    slot: datetime,
    memory: Memory,
    watch: Stopwatch,
    *,
    scores: RunScores | None = None,
    batch_users: int | None = None,
    sampled_users: int | None = None,
) -> Measurement:
    """Measure one slot of an unpaired comparison. ``scores`` are as in `measure_slot`.

    Raises SourceError if the users of an arm cannot be read, or if the split has changed.
    """
    measuring = comparison.measuring
    plan, sources = measuring.unpaired, arms.unpaired
    if plan is None or sources is None:
        raise ValueError(f"{comparison.name} is a paired comparison")
    if memory.planned_share not in (None, plan.baseline_share):
        raise SourceError(write_changed_split(plan.baseline_share, memory.planned_share))
    seconds_left = partial(watch.seconds_left, measuring.deadline)
    scores = RunScores() if scores is None else scores
    keep = measuring.keep_scores if arms.scores_to is None else Keep.ALL
    size = batch_users or users_at_once(measuring.k)
    notes: Notes = {}
    with watch.stage("users"):
        assigned = _read_assigned(sources, slot, seconds_left())
    with watch.stage("outcomes"):
        switched = assigned.switched
        outcomes, lacks = measure_outcomes(plan, arms, switched, slot, seconds_left)
    if arms.pseudonyms is not None:
        switched = arms.pseudonyms.hide(switched)
    with open_answers(comparison, arms, slot, watch, memory) as answers:
        segments = answers.asked.segments
        asked = _divide(answers.asked)
        accumulator = RunAccumulator(
            comparison,
            asked,
            watch.stage,
            sampled_users=sampled_users or users_in_sample(measuring.k),
            wanted=_wanted_statistics(comparison),
        )
        weights = None
        for batch in watch.iterate("pull", answers.batches(size)):
            arm = batch.arm
            if arm is None:
                raise ValueError("the users of a batch are served by one arm")
            weights = batch.weights
            _add_notes(notes, batch, arm)
            measured = accumulator.add(_place(batch, arm, switched))
            scores.add(draw_scores(_name_scores(measured, arm), keep, comparison))
    scores.failed = accumulator.part.failed
    run, sample = accumulator.finish(slot, weights)
    coverage = _merge_coverage(accumulator.coverage, segments)
    summaries = _compare_arms(run.summaries, segments, accumulator.metrics, measuring.k)
    with watch.stage("arms"):
        arm_scores, arm_gaps = _measure_arms(measuring, sample, memory, segments)
    with watch.stage("explain"):
        of_arms = DividedSample(
            sample=sample,
            segments=segments,
            coverage=_merge_coverage(sample.coverage, segments),
        )
        metric = leading_metric(comparison, accumulator.metrics)
        hashes = hash_users(sample.scores.users, comparison)
        differences = compare_lists(of_arms, measuring.k, hashes)
        explanation = explain_unpaired(of_arms, metric, summaries, differences.excess)
        measured_users = accumulator.coverage.all.asked
        explanation = note_sample(explanation, sample.coverage.all.asked, measured_users)
        explanation, titles_error = add_titles(explanation, arms.titles, slot, seconds_left())
    count = assigned.count
    unpaired = UnpairedFindings(
        baseline_share=plan.baseline_share,
        users=_count_users(accumulator.coverage, assigned),
        switched=len(assigned.switched),
        log_e=log_evidence(count[Arm.BASELINE], count[Arm.CANDIDATE], plan.baseline_share),
        before_p=differences.before_p,
        between=differences.between,
        items=differences.items,
        counted=differences.counted,
        arm_gaps=arm_gaps,
        outcomes=outcomes,
    )
    last_models = None if memory.last_ok is None else memory.last_ok.models
    run = replace(
        run,
        scores=scores if scores.count else None,
        coverage=coverage,
        summaries=(*summaries, *summarize_outcomes(outcomes)),
        evidence=_name_evidence(run.evidence, accumulator, asked),
        arm_scores=arm_scores,
        lists=_merge_lists(run.lists, segments),
        explanation=explanation,
        pull_seconds=dict.fromkeys(Arm, watch.seconds.get("pull", 0.0)),
        models=follow(last_models, accumulator.part.versions, slot),
        id_mismatches=(),
        unpaired=unpaired,
    )
    return Measurement(
        run=run,
        coverage=coverage,
        notes=notes,
        left_out=(*lacks, *answers.lacks, *accumulator.left_out, *filter(None, [titles_error])),
    )


def _read_assigned(sources: UnpairedArms, slot: datetime, seconds_left: float) -> AssignedUsers:
    """Read the users that were assigned to each arm. Raises SourceError if they come too late."""
    late = "the users that were assigned to the arms did not arrive before the run's deadline"
    return ask_in_time(partial(sources.assigned.assigned, slot), seconds_left, late)


def _wanted_statistics(comparison: Comparison) -> dict[str, list[Statistic]]:
    """Return the statistics that rules and far gaps need, by metric."""
    wanted: dict[str, list[Statistic]] = {}
    for name, statistics in wanted_statistics(comparison.judging.similarity_rules).items():
        wanted.setdefault(parse_derived(name)[1], []).extend(statistics)
    for metric in map(parse, comparison.measuring.metrics):
        far = far_share(metric)
        if far is not None:
            wanted.setdefault(str(metric), []).append(far)
    return wanted


def _divide(asked: AskedUsers) -> AskedUsers:
    """Divide each segment by arm. The segment ``all`` with the users of both arms comes first."""
    names = [divided(arm, segment) for segment in asked.segments for arm in Arm]
    return replace(asked, segments=(ALL, *names))


def _place(batch: UserBatch, arm: Arm, switched: "pd.Index[str]") -> UserBatch:
    """Return the batch with its users in segments of their arm, without users that switched."""
    batch = leave_out(batch, switched)
    segments = {ALL: batch.panel.segments[ALL]}
    for name, rows in batch.panel.segments.items():
        segments[divided(arm, name)] = rows
    # The accumulator counts versions by the side of a pair, so now they must be on the arm's side.
    versions: dict[Arm, Mapping[str, int]] = {arm: batch.candidate.versions, arm.other: {}}
    return replace(
        batch,
        panel=replace(batch.panel, segments=segments),
        baseline=replace(batch.baseline, versions=versions[Arm.BASELINE]),
        candidate=replace(batch.candidate, versions=versions[Arm.CANDIDATE]),
    )


def _add_notes(notes: Notes, batch: UserBatch, arm: Arm) -> None:
    for reason, text in batch.candidate.notes.items():
        notes.setdefault((arm, reason), CoverageNote(text=text))


def _name_scores(scores: Scores, arm: Arm) -> Scores:
    """Return the scores under the names of the arm's series. Those of the other arm are NaN."""
    by_metric = {}
    for name, values in scores.by_metric.items():
        by_metric[SELF_SERIES[arm].of(name)] = values
        by_metric[SELF_SERIES[arm.other].of(name)] = np.full(len(values), np.nan)
    return Scores(users=scores.users, by_metric=dict(sorted(by_metric.items())))


def _merge_coverage(coverage: Coverage, segments: Iterable[str]) -> Coverage:
    """Join the rows of both arms. The reasons are those of the arm's lists of now."""
    rows = {row.segment: row for row in coverage.rows}
    merged = []
    for segment in segments:
        of_arms = {arm: rows[divided(arm, segment)] for arm in Arm}
        users_by_reason = {}
        for arm, row in of_arms.items():
            for (side, reason), users in row.users_by_reason.items():
                if side is Arm.CANDIDATE:
                    users_by_reason[arm, reason] = users
        merged.append(
            CoverageRow(
                segment=segment,
                asked=sum(row.asked for row in of_arms.values()),
                paired=sum(row.paired for row in of_arms.values()),
                users_by_reason=users_by_reason,
                asked_by_arm={arm: row.asked for arm, row in of_arms.items()},
            )
        )
    return Coverage(rows=tuple(merged))


def _count_users(coverage: Coverage, assigned: AssignedUsers) -> dict[Arm, ArmCounts]:
    """Return how many users of each arm were assigned, were served a list, and were compared."""
    rows = {row.segment: row for row in coverage.rows}
    users = {}
    for arm in Arm:
        row = rows[divided(arm, ALL)]
        users[arm] = ArmCounts(
            assigned=assigned.count[arm],
            served=row.asked - row.count_lost(Arm.CANDIDATE),
            compared=row.paired,
        )
    return users


def _compare_arms(
    summaries: Iterable[Summary], segments: Iterable[str], metrics: Iterable[Metric], k: int
) -> tuple[Summary, ...]:
    """Return the gaps and the summaries of both arms, by segment and metric."""
    measured = {(summary.segment, summary.metric): summary for summary in summaries}
    compared: list[Summary] = []
    for segment in segments:
        for metric in metrics:
            of_arms = {}
            for arm in Arm:
                summary = measured[divided(arm, segment), str(metric)]
                series = SELF_SERIES[arm].of(str(metric))
                of_arms[arm] = replace(summary, segment=segment, metric=series)
            compared += _measure_gaps(metric, k, *of_arms.values())
            compared += of_arms.values()
    return tuple(compared)


def _measure_gaps(metric: Metric, k: int, baseline: Summary, candidate: Summary) -> list[Summary]:
    """Return the self gap, and the far gap if the metric has one."""
    low, high = metric.bounds(k)
    self_gap = mean_gap(baseline, candidate)
    if not metric.higher_is_more_alike:
        self_gap = replace(self_gap, value=-self_gap.value)
    users = baseline.n + candidate.n
    gaps = {DerivedMetric.SELF_GAP: (self_gap, low - high, high - low)}
    share = far_share(metric)
    if share is not None:
        far_gap = share_gap(count_far(baseline, share), count_far(candidate, share))
        gaps[DerivedMetric.FAR_GAP] = (far_gap, -1.0, 1.0)
    return [
        _summarize_gap(gap, baseline.segment, series.of(str(metric)), users, (lowest, highest))
        for series, (gap, lowest, highest) in gaps.items()
    ]


def _summarize_gap(
    gap: Gap, segment: str, name: str, users: int, bounds: tuple[float, float]
) -> Summary:
    """Return the gap as a summary. Without an error it is not judged, so it has no users."""
    is_known = isfinite(gap.error)
    return Summary(
        segment=segment,
        metric=name,
        n=users if is_known else 0,
        n_undefined=0 if is_known else users,
        mean=gap.value if is_known else None,
        standard_error=gap.error if is_known else None,
        statistics={},
        histogram=Histogram(low=bounds[0], high=bounds[1], counts=()),
    )


def _measure_arms(
    measuring: MeasuringPlan, sample: Sample, memory: Memory, segments: Iterable[str]
) -> tuple[tuple[ArmScore, ...], tuple[ArmGap, ...]]:
    """Measure the lists of now of each arm, and how much more they changed in the candidate.

    Traits that compare two lists compare them with before. The lists of the last run, if any, are
    those of the same users.
    """
    names = {divided(arm, segment): (segment, arm) for segment in segments for arm in Arm}
    rows = {name: sample.segments[name] for name in names}
    last, former = recode_earlier(memory, measuring, sample)
    scores = measure_arm_scores(measuring, replace(sample, segments=rows), last=last, former=former)
    of_now: list[ArmScore] = []
    of_before: list[ArmScore] = []
    for score in scores:
        segment, arm = names[score.segment]
        side = of_now if score.arm is Arm.CANDIDATE else of_before
        side.append(replace(score, segment=segment, arm=arm))
    return tuple(of_now), tuple(_compare_with_before(of_now, of_before))


def _compare_with_before(
    of_now: Iterable[ArmScore], of_before: Iterable[ArmScore]
) -> Iterator[ArmGap]:
    """Yield the gap of each metric that both arms have, now and before."""
    values_before = _values_by_arm(of_before)
    for (segment, metric), now in _values_by_arm(of_now).items():
        before = values_before.get((segment, metric), {})
        if len(now) == len(before) == len(Arm):
            rise = {arm: now[arm] - before[arm] for arm in Arm}
            adjusted = rise[Arm.CANDIDATE] - rise[Arm.BASELINE]
            yield ArmGap(segment=segment, metric=metric, values_before=before, adjusted=adjusted)


def _values_by_arm(scores: Iterable[ArmScore]) -> dict[tuple[str, str], dict[Arm, float]]:
    values: dict[tuple[str, str], dict[Arm, float]] = {}
    for score in scores:
        if score.value is not None:
            values.setdefault((score.segment, score.metric), {})[score.arm] = score.value
    return values


def _name_evidence(
    evidence: Sequence[Evidence], accumulator: RunAccumulator, asked: AskedUsers
) -> tuple[Evidence, ...]:
    """Return the evidence with scores under the names of the series of the user's arm."""
    users = accumulator.shown_users()
    rows = rows_by_segment(users["segments"], asked.segments)[divided(Arm.CANDIDATE, ALL)]
    candidates = set(user_index(users["user"])[rows].intersection([each.user for each in evidence]))
    named = []
    for each in evidence:
        series = SELF_SERIES[Arm.CANDIDATE if each.user in candidates else Arm.BASELINE]
        scores = {series.of(name): value for name, value in each.scores.items()}
        named.append(replace(each, scores=scores))
    return tuple(named)


def _merge_lists(lists: KeptLists | None, segments: Iterable[str]) -> KeptLists | None:
    """Return the lists with undivided segments: before as the baseline, now as the candidate."""
    if lists is None:
        return None
    merged = {}
    for segment in segments:
        parts = [lists.segments.get(divided(arm, segment)) for arm in Arm]
        rows = [part for part in parts if part is not None]
        if rows:
            merged[segment] = np.sort(np.concatenate(rows))
    return replace(lists, segments=merged)
