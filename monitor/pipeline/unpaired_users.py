"""Users that are served by one arm only.

A user's current list is compared with the user's pre-test list. So a pair has two lists of
one user, and not of two arms. The users of both arms go through one accumulator. There each segment
is divided into the users of the baseline and the users of the candidate.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from math import isfinite

import numpy as np
import pandas as pd

from monitor.measures.metrics import Metric
from monitor.measures.pairing.list_tables import rows_by_segment, user_index
from monitor.measures.sampling import hash_users
from monitor.model.errors import SourceError
from monitor.model.immutable import extend, immutable
from monitor.model.rankings import (
    ALL,
    Arm,
    Coverage,
    CoverageRow,
    UserBatch,
)
from monitor.model.runs import ArmScore, Evidence, Histogram, KeptLists, MeasuredRun, Summary
from monitor.model.statistics import SELF_SERIES, DerivedMetric
from monitor.model.unpaired import (
    ArmCounts,
    ArmGap,
    AssignedUsers,
    UnpairedPlan,
    UnpairedResults,
)
from monitor.pipeline.divided_subset import DividedSubset, name_divided_segment
from monitor.pipeline.earlier_lists import measure_arm_scores
from monitor.pipeline.measured_users import MeasuredUsers, Measurement
from monitor.pipeline.outcomes import measure_outcomes, summarize_outcomes
from monitor.pipeline.pull import SlotUsers, SourceAnswers, ask_in_time
from monitor.pipeline.run_explanation import mention_subset
from monitor.pipeline.score import leading_metric
from monitor.pipeline.unpaired_explanation import add_differences, explain_unpaired
from monitor.pipeline.user_batches import leave_out
from monitor.statistics.unpaired.far_lists import far_share
from monitor.statistics.unpaired.gaps import Gap, count_far, mean_gap, share_gap
from monitor.statistics.unpaired.split import log_evidence
from monitor.texts.unpaired import write_changed_split


@immutable
class UnpairedUsers(SlotUsers):
    """The users of an unpaired comparison.

    - ``results`` are what is known before the users' lists are read.
    - ``unread_inputs`` are sentences about outcomes that could not be read.
    """

    assigned: AssignedUsers
    results: UnpairedResults
    unread_inputs: tuple[str, ...]

    def divide(self, answers: SourceAnswers) -> SourceAnswers:
        """Return the answers without users that switched arms, and with segments divided by arm.

        The segment ``all`` with the users of both arms comes first.
        """
        segments = [ALL]
        for segment in answers.asked.segments:
            for arm in Arm:
                segments.append(name_divided_segment(arm, segment))
        asked = replace(answers.asked, segments=tuple(segments))

        def batches(size: int) -> Iterator[UserBatch]:
            for batch in answers.batches(size):
                yield _divide_batch(batch, self.assigned.switched)

        return replace(answers, asked=asked, batches=batches)

    def measure_arms(self, users: MeasuredUsers) -> MeasuredRun:
        """Return the run with the arm metrics, and how much more they rose in the candidate."""
        # The undivided segment and the arm of each segment that was divided by arm.
        arm_segments = {}
        for segment in users.answers.asked.segments:
            for arm in Arm:
                arm_segments[name_divided_segment(arm, segment)] = (segment, arm)
        rows = {name: users.subset.segments[name] for name in arm_segments}
        scores = measure_arm_scores(
            self.comparison.measuring,
            replace(users.subset, segments=rows),
            last=users.last,
            former=users.former,
        )
        scores_now = []
        scores_before = []
        for score in scores:
            segment, arm = arm_segments[score.segment]
            arm_score = replace(score, segment=segment, arm=arm)
            # ``score.arm`` is not the arm of the users, but the side of the pair. The candidate's
            # side has the current lists.
            if score.arm is Arm.CANDIDATE:
                scores_now.append(arm_score)
            else:
                scores_before.append(arm_score)
        gaps = tuple(_compare_with_before(scores_now, scores_before))
        unpaired = replace(self.results, arm_gaps=gaps)
        return replace(users.run, arm_scores=tuple(scores_now), unpaired=unpaired)

    def explain(self, users: MeasuredUsers) -> Measurement:
        """Compare the arms, explain the run, and say what could not be measured."""
        k = self.comparison.measuring.k
        accumulator = users.accumulator
        subset = users.subset
        run = users.run
        segments = users.answers.asked.segments
        coverage = _merge_coverage(accumulator.coverage, segments)
        summaries = _compare_arms(run.summaries, segments, accumulator.metrics, k)
        divided_subset = DividedSubset(
            subset=subset,
            segments=segments,
            coverage=_merge_coverage(subset.coverage, segments),
        )
        metric = leading_metric(self.comparison, accumulator.metrics)
        hashes = hash_users(subset.scores.users, self.comparison)
        unpaired = replace(
            run.unpaired or self.results,
            users=_count_users(accumulator.coverage, self.assigned),
        )
        unpaired = add_differences(unpaired, divided_subset, k, hashes)
        split, explanation = explain_unpaired(
            self.comparison,
            divided_subset,
            metric,
            summaries,
            unpaired,
            self.memory,
            former=users.former,
            last=users.last,
        )
        measured_users = accumulator.coverage.all.asked
        run = replace(
            run,
            coverage=coverage,
            summaries=(*summaries, *summarize_outcomes(unpaired.outcomes)),
            evidence=self._rename_scores(users),
            lists=_merge_lists(run.lists, segments),
            split=split,
            explanation=mention_subset(explanation, subset.coverage.all.asked, measured_users),
            # The mismatches are between pre-test and current lists, and not between the arms.
            id_mismatches=(),
            unpaired=unpaired,
        )
        # A user without a list is no example of a fault, because an arm does not serve all of its
        # users in each run.
        notes = {key: replace(note, users=()) for key, note in accumulator.notes.items()}
        return Measurement(
            run=run,
            coverage=coverage,
            notes=notes,
            left_out=(*self.unread_inputs, *users.answers.unread_inputs, *accumulator.left_out),
        )

    def _rename_scores(self, users: MeasuredUsers) -> tuple[Evidence, ...]:
        """Return the evidence with each metric renamed to the series of the user's arm."""
        candidate_users = self._candidate_users(users)
        renamed = []
        for evidence in users.run.evidence:
            arm = Arm.CANDIDATE if evidence.user in candidate_users else Arm.BASELINE
            scores = {SELF_SERIES[arm].of(name): score for name, score in evidence.scores.items()}
            renamed.append(replace(evidence, scores=scores))
        return tuple(renamed)

    def _candidate_users(self, users: MeasuredUsers) -> "pd.Index[str]":
        """Return the candidate's users among the users whose lists are shown or stored."""
        shown_users = users.accumulator.join_shown_users()
        segments = self.divide(users.answers).asked.segments
        rows = rows_by_segment(shown_users["segments"], segments)
        return user_index(shown_users["user"])[rows[name_divided_segment(Arm.CANDIDATE, ALL)]]


def read_unpaired(users: SlotUsers, plan: UnpairedPlan) -> UnpairedUsers:
    """Read the users that were assigned to each arm, and their outcomes.

    Raises SourceError if the users cannot be read in time, or if the planned split has changed.
    """
    sources = users.arms.unpaired
    earlier_share = users.memory.planned_baseline_share
    if sources is None:
        raise ValueError(f"{users.comparison.name} is a paired comparison")
    if earlier_share not in (None, plan.baseline_share):
        raise SourceError(write_changed_split(plan.baseline_share, earlier_share))
    late_message = (
        "the users that were assigned to the arms did not arrive before the run's deadline"
    )
    with users.stopwatch.stage("users"):
        read = partial(sources.assigned.assigned, users.slot)
        assigned = ask_in_time(read, users.seconds_left(), late_message)
    with users.stopwatch.stage("outcomes"):
        outcomes, unread_inputs = measure_outcomes(
            plan, users.arms, assigned.switched, users.slot, users.seconds_left
        )
    count = assigned.count
    results = UnpairedResults(
        baseline_share=plan.baseline_share,
        users={},
        switched=len(assigned.switched),
        log_e=log_evidence(count[Arm.BASELINE], count[Arm.CANDIDATE], plan.baseline_share),
        outcomes=outcomes,
    )
    if users.arms.pseudonyms is not None:
        hidden = users.arms.pseudonyms.hide(assigned.switched)
        assigned = replace(assigned, switched=hidden)
    return extend(
        UnpairedUsers,
        users,
        assigned=assigned,
        results=results,
        unread_inputs=tuple(unread_inputs),
    )


def _divide_batch(batch: UserBatch, switched: "pd.Index[str]") -> UserBatch:
    """Return the batch without users that switched arms, and with segments divided by arm."""
    arm = batch.arm
    if arm is None:
        raise ValueError("the users of a batch are served by one arm")
    batch = leave_out(batch, switched)
    segments = {ALL: batch.panel.segments[ALL]}
    for name, rows in batch.panel.segments.items():
        segments[name_divided_segment(arm, name)] = rows
    # The baseline's side of a pair has the pre-test list, and the candidate's side has the current
    # list. The accumulator counts the versions and notes of each side for the arm of that name. So
    # the side of the users' arm gets those of the current lists, and the other side gets none.
    before, now = batch.baseline, batch.candidate
    sides = {Arm.BASELINE: before, Arm.CANDIDATE: now}
    sides[arm] = replace(sides[arm], versions=now.versions, notes=now.notes)
    sides[arm.other] = replace(sides[arm.other], versions={}, notes={})
    return replace(
        batch,
        panel=replace(batch.panel, segments=segments),
        baseline=sides[Arm.BASELINE],
        candidate=sides[Arm.CANDIDATE],
    )


def _merge_coverage(coverage: Coverage, segments: Iterable[str]) -> Coverage:
    """Merge the rows of both arms for each segment. Reasons are counted for current lists only."""
    rows = {row.segment: row for row in coverage.rows}
    merged = []
    for segment in segments:
        row_of_arm = {arm: rows[name_divided_segment(arm, segment)] for arm in Arm}
        users_by_reason = {}
        for arm, row in row_of_arm.items():
            for (side, reason), users in row.users_by_reason.items():
                # The candidate's side of a pair has the current list.
                if side is Arm.CANDIDATE:
                    users_by_reason[arm, reason] = users
        merged.append(
            CoverageRow(
                segment=segment,
                asked=sum(row.asked for row in row_of_arm.values()),
                paired=sum(row.paired for row in row_of_arm.values()),
                users_by_reason=users_by_reason,
                asked_by_arm={arm: row.asked for arm, row in row_of_arm.items()},
            )
        )
    return Coverage(rows=tuple(merged))


def _count_users(coverage: Coverage, assigned: AssignedUsers) -> dict[Arm, ArmCounts]:
    """Return how many users of each arm were assigned, were served a list, and were compared."""
    rows = {row.segment: row for row in coverage.rows}
    users = {}
    for arm in Arm:
        row = rows[name_divided_segment(arm, ALL)]
        # The candidate's side of a pair has the current list.
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
    summary_by_series = {(summary.segment, summary.metric): summary for summary in summaries}
    compared: list[Summary] = []
    for segment in segments:
        for metric in metrics:
            arm_summaries = []
            for arm in Arm:
                summary = summary_by_series[name_divided_segment(arm, segment), str(metric)]
                series = SELF_SERIES[arm].of(str(metric))
                arm_summaries.append(replace(summary, segment=segment, metric=series))
            baseline, candidate = arm_summaries
            compared += _measure_gaps(metric, k, baseline, candidate)
            compared += arm_summaries
    return tuple(compared)


def _measure_gaps(metric: Metric, k: int, baseline: Summary, candidate: Summary) -> list[Summary]:
    """Return the self gap, and the far gap if the metric has one."""
    segment = baseline.segment
    users = baseline.n + candidate.n
    low, high = metric.bounds(k)
    self_gap = mean_gap(baseline, candidate)
    if not metric.higher_is_more_alike:
        self_gap = replace(self_gap, value=-self_gap.value)
    name = DerivedMetric.SELF_GAP.of(str(metric))
    summaries = [_summarize_gap(self_gap, segment, name, users, high - low)]
    share = far_share(metric)
    if share is not None:
        far_gap = share_gap(count_far(baseline, share), count_far(candidate, share))
        name = DerivedMetric.FAR_GAP.of(str(metric))
        summaries.append(_summarize_gap(far_gap, segment, name, users, 1.0))
    return summaries


def _summarize_gap(gap: Gap, segment: str, name: str, users: int, largest: float) -> Summary:
    """Return the gap as a summary. A gap without an error is not judged, so it has no users.

    ``largest`` is the largest possible gap, in both directions.
    """
    is_known = isfinite(gap.error)
    return Summary(
        segment=segment,
        metric=name,
        n=users if is_known else 0,
        n_undefined=0 if is_known else users,
        mean=gap.value if is_known else None,
        standard_error=gap.error if is_known else None,
        statistics={},
        histogram=Histogram(low=-largest, high=largest, counts=()),
    )


def _compare_with_before(
    scores_now: Iterable[ArmScore], scores_before: Iterable[ArmScore]
) -> Iterator[ArmGap]:
    """Yield how much more each arm metric rose in the candidate than in the baseline, by segment.

    A metric is left out if a value of an arm, now or before, is missing.
    """
    values_before = _values_by_arm(scores_before)
    for (segment, metric), now in _values_by_arm(scores_now).items():
        before = values_before.get((segment, metric), {})
        has_all_values = len(now) == len(before) == len(Arm)
        if has_all_values:
            rise = {arm: now[arm] - before[arm] for arm in Arm}
            adjusted = rise[Arm.CANDIDATE] - rise[Arm.BASELINE]
            yield ArmGap(segment=segment, metric=metric, values_before=before, adjusted=adjusted)


def _values_by_arm(scores: Iterable[ArmScore]) -> dict[tuple[str, str], dict[Arm, float]]:
    values: dict[tuple[str, str], dict[Arm, float]] = {}
    for score in scores:
        if score.value is not None:
            values.setdefault((score.segment, score.metric), {})[score.arm] = score.value
    return values


def _merge_lists(lists: KeptLists | None, segments: Iterable[str]) -> KeptLists | None:
    """Return the lists with undivided segments. The lists themselves stay as they are."""
    if lists is None:
        return None
    merged = {}
    for segment in segments:
        parts = [lists.segments.get(name_divided_segment(arm, segment)) for arm in Arm]
        rows = [part for part in parts if part is not None]
        if rows:
            merged[segment] = np.sort(np.concatenate(rows))
    return replace(lists, segments=merged)
