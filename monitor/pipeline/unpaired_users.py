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
from monitor.measures.pairing.ids import find_users
from monitor.measures.pairing.list_tables import rows_by_segment
from monitor.measures.reading.ids import user_index
from monitor.measures.sampling import hash_users
from monitor.model.errors import SourceError
from monitor.model.immutable import extend, immutable
from monitor.model.instants import format_second
from monitor.model.ports import LogSource
from monitor.model.rankings import (
    ALL,
    Arm,
    Coverage,
    CoverageRow,
    UserBatch,
)
from monitor.model.run_reasons import IdMismatch
from monitor.model.runs import ArmScore, Evidence, Histogram, KeptLists, MeasuredRun, Summary
from monitor.model.statistics import PRE_TEST_SERIES, DerivedMetric
from monitor.model.unpaired import (
    ARM_COLUMN,
    ArmCounts,
    ArmGap,
    AssignedUsers,
    UnpairedPlan,
    UnpairedResults,
)
from monitor.pipeline.divided_subset import DividedSubset, name_divided_segment
from monitor.pipeline.earlier_lists import measure_arm_scores
from monitor.pipeline.id_spellings import explain_missing_users
from monitor.pipeline.measured_users import MeasuredUsers, Measurement
from monitor.pipeline.outcomes import measure_outcomes, summarize_outcomes
from monitor.pipeline.pull import SlotContext, SourceAnswers, UnpairedSources, ask_in_time
from monitor.pipeline.run_explanation import mention_subset
from monitor.pipeline.score import leading_metric
from monitor.pipeline.unpaired_explanation import add_differences, explain_unpaired
from monitor.pipeline.user_batches import leave_out
from monitor.statistics.unpaired.far_lists import find_far_statistic
from monitor.statistics.unpaired.gaps import Gap, count_far, mean_gap, share_gap
from monitor.statistics.unpaired.split import log_evidence
from monitor.texts.unpaired import write_changed_split, write_too_early

_LATE_MESSAGE = "the users that were assigned to the arms did not arrive before the run's deadline"


@immutable
class UnpairedSteps(SlotContext):
    """The steps of a run of an unpaired comparison.

    - ``assigned`` has the users that switched arms, which are left out.
    - ``results`` are the results that do not need the users' lists. The steps add the others.
    - ``unread_inputs`` are sentences about outcomes that could not be read.
    """

    assigned: AssignedUsers
    results: UnpairedResults
    unread_inputs: tuple[str, ...]

    def divide_by_arm(self, answers: SourceAnswers) -> SourceAnswers:
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

    def measure_arms(self, measured: MeasuredUsers) -> MeasuredRun:
        """Return the run with the arm metrics, and with their gaps.

        A gap says how much more a metric rose in the candidate than in the baseline, since the test
        began.
        """
        # The segment and the arm of each divided segment.
        segment_and_arm = {}
        for segment in measured.answers.asked.segments:
            for arm in Arm:
                segment_and_arm[name_divided_segment(arm, segment)] = (segment, arm)
        rows = {name: measured.subset.segments[name] for name in segment_and_arm}
        scores = measure_arm_scores(
            self.comparison.measuring,
            replace(measured.subset, segments=rows),
            last=measured.last,
            former=measured.former,
        )
        scores_now = []
        scores_before = []
        for score in scores:
            segment, arm = segment_and_arm[score.segment]
            arm_score = replace(score, segment=segment, arm=arm)
            # A pair has the pre-test list on the baseline's side, and the current list on the
            # candidate's side. ``score.arm`` is the side, and ``arm`` is the arm of the users.
            if score.arm is Arm.CANDIDATE:
                scores_now.append(arm_score)
            else:
                scores_before.append(arm_score)
        gaps = tuple(_compare_with_before(scores_now, scores_before))
        unpaired = replace(self.results, arm_gaps=gaps)
        return replace(measured.run, arm_scores=tuple(scores_now), unpaired=unpaired)

    def explain(self, measured: MeasuredUsers) -> Measurement:
        """Compare the arms, explain the run, and say what could not be measured."""
        k = self.comparison.measuring.k
        accumulator = measured.accumulator
        subset = measured.subset
        run = measured.run
        segments = measured.answers.asked.segments
        coverage = _merge_coverage(accumulator.coverage, segments)
        summaries = _compare_arms(run.summaries, segments, accumulator.metrics, k)
        divided_subset = DividedSubset(
            subset=subset,
            segments=segments,
            coverage=_merge_coverage(subset.coverage, segments),
        )
        metric = leading_metric(self.comparison, accumulator.metrics)
        hashes = hash_users(subset.scores.users, self.comparison)
        # `measure_arms` has already put the results into the run.
        unpaired = replace(
            run.unpaired or self.results,
            users=_count_users(accumulator.coverage, self.assigned),
        )
        unpaired = add_differences(unpaired, divided_subset, hashes)
        split, explanation = explain_unpaired(
            self.comparison,
            divided_subset,
            metric,
            summaries,
            unpaired,
            self.memory,
            former=measured.former,
            last=measured.last,
        )
        measured_users = accumulator.coverage.all.asked
        mismatches: tuple[IdMismatch, ...] = ()
        if self.sources.unpaired is not None:
            sources = replace(self.sources, listed=self.sources.unpaired.listed)
            mismatches = explain_missing_users(sources, coverage, self.slot, self.seconds_left())
        run = replace(
            run,
            coverage=coverage,
            summaries=(*summaries, *summarize_outcomes(unpaired.outcomes)),
            evidence=self._evidence_with_arm_series(measured),
            lists=_merge_lists(run.lists, segments),
            split=split,
            explanation=mention_subset(explanation, subset.coverage.all.asked, measured_users),
            # The mismatches of the pairs are between pre-test and current lists.
            id_mismatches=mismatches,
            unpaired=unpaired,
        )
        # A user without a list is no example of a fault, because an arm does not serve all of its
        # users in each run.
        notes = {key: replace(note, users=()) for key, note in accumulator.notes.items()}
        return Measurement(
            run=run,
            coverage=coverage,
            notes=notes,
            left_out=(*self.unread_inputs, *measured.answers.unread_inputs, *accumulator.left_out),
        )

    def _evidence_with_arm_series(self, measured: MeasuredUsers) -> tuple[Evidence, ...]:
        """Return the evidence with each metric renamed to the series of the user's arm.

        Such a series is ``baseline_self(METRIC)`` or ``candidate_self(METRIC)``.
        """
        candidate_users = self._candidate_users(measured)
        renamed = []
        for evidence in measured.run.evidence:
            arm = Arm.CANDIDATE if evidence.user in candidate_users else Arm.BASELINE
            scores = {
                PRE_TEST_SERIES[arm].of(name): score for name, score in evidence.scores.items()
            }
            renamed.append(replace(evidence, scores=scores))
        return tuple(renamed)

    def _candidate_users(self, measured: MeasuredUsers) -> "pd.Index[str]":
        """Return the candidate's users among the users whose lists are shown or stored."""
        shown_users = measured.accumulator.join_shown_users()
        segments = self.divide_by_arm(measured.answers).asked.segments
        rows = rows_by_segment(shown_users["segments"], segments)
        return user_index(shown_users["user"])[rows[name_divided_segment(Arm.CANDIDATE, ALL)]]


def read_unpaired(context: SlotContext, plan: UnpairedPlan) -> UnpairedSteps:
    """Read the users that were assigned to each arm, and their outcomes. Returns the run's steps.

    Raises SourceError if the users cannot be read in time, if the planned split has changed, or if
    the test begins later than the slot.
    """
    unpaired = context.sources.unpaired
    earlier = context.memory.last_unpaired
    if unpaired is None:
        raise ValueError(f"{context.comparison.name} is a paired comparison")
    if context.slot <= plan.since:
        raise SourceError(write_too_early(format_second(plan.since)))
    most_users = 0
    if earlier is not None:
        most_users = earlier.most_users
        if earlier.baseline_share != plan.baseline_share:
            raise SourceError(write_changed_split(plan.baseline_share, earlier.baseline_share))
    if unpaired.log is not None:
        context, unpaired = _begin_reading(context, unpaired, unpaired.log)
    with context.stopwatch.stage("users"):
        read = partial(unpaired.assigned.assigned, context.slot)
        assigned = ask_in_time(read, context.seconds_left(), _LATE_MESSAGE)
        served_by_other, served_by_any = _count_served(context, unpaired, assigned.switched)
    with context.stopwatch.stage("outcomes"):
        outcomes, unread_inputs = measure_outcomes(
            plan, context.sources, assigned.switched, context.slot, context.seconds_left
        )
    count = assigned.count
    results = UnpairedResults(
        baseline_share=plan.baseline_share,
        users={},
        switched=len(assigned.switched),
        # The evidence that the users were not split as planned.
        log_e=log_evidence(count[Arm.BASELINE], count[Arm.CANDIDATE], plan.baseline_share),
        outcomes=outcomes,
        served_by_other=served_by_other,
        served_by_any=served_by_any,
        most_users=max(most_users, sum(count.values()) + len(assigned.switched)),
    )
    if context.sources.pseudonyms is not None:
        hidden = context.sources.pseudonyms.hide(assigned.switched)
        assigned = replace(assigned, switched=hidden)
    return extend(
        UnpairedSteps,
        context,
        assigned=assigned,
        results=results,
        unread_inputs=tuple(unread_inputs),
    )


def _begin_reading(
    context: SlotContext, unpaired: UnpairedSources, log: LogSource
) -> tuple[SlotContext, UnpairedSources]:
    """Begin to read the log. Returns the context and the sources with its users and lists."""
    sources = context.sources
    rows = log.read(context.slot, (*sources.dimensions, ARM_COLUMN), context.seconds_left())
    unpaired = replace(unpaired, assigned=rows.assigned, lists=rows.lists)
    sources = replace(sources, users=rows.users, baseline=rows.before, unpaired=unpaired)
    return replace(context, sources=sources), unpaired


def _count_served(
    context: SlotContext, unpaired: UnpairedSources, switched: "pd.Index[str]"
) -> tuple[int, int]:
    """Count the users whose newest list came from the other arm than the assigned one.

    Also counts the assigned users with a list of any arm. Users that ``switched`` are left out.
    Both are 0 if the comparison has no assignments, or if a source cannot be read.
    """
    if unpaired.served is None:
        return 0, 0
    tables = []
    for source in (context.sources.users, unpaired.served):
        read = partial(source.users, context.slot, (ARM_COLUMN,))
        try:
            tables.append(ask_in_time(read, context.seconds_left(), _LATE_MESSAGE))
        except SourceError:  # reading the users or the lists of the run reports the same error
            return 0, 0
    assigned, served = tables
    rows = find_users(assigned.users, served.users)
    is_served = (rows >= 0) & ~assigned.users.isin(switched)
    is_candidate = assigned.segments[ARM_COLUMN] == Arm.CANDIDATE
    is_served_by_candidate = (served.segments[ARM_COLUMN] == Arm.CANDIDATE)[rows]
    is_served_by_other = is_served & (is_candidate != is_served_by_candidate)
    return int(is_served_by_other.sum()), int(is_served.sum())


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
    # list. The accumulator counts the versions and notes of a side for the arm of the same name.
    # But the current lists are those of the users' arm. So their versions and notes move to the
    # side of this arm, and the other side gets none.
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
        # The baseline's side of a pair is the pre-test list, and the candidate's side is the
        # current list. So a user that the candidate's side lacks was not served in this run.
        users[arm] = ArmCounts(
            assigned=assigned.count[arm],
            served=row.asked - row.count_lost(Arm.CANDIDATE),
            compared=row.paired,
        )
    return users


def _compare_arms(
    summaries: Iterable[Summary], segments: Iterable[str], metrics: Iterable[Metric], k: int
) -> tuple[Summary, ...]:
    """Return the self gaps, the far gaps, and the summaries of each arm's users.

    ``segments`` are undivided. ``summaries`` are those of the divided segments.
    """
    summary_by_series = {(summary.segment, summary.metric): summary for summary in summaries}
    compared: list[Summary] = []
    for segment in segments:
        for metric in metrics:
            arm_summaries = []
            for arm in Arm:
                summary = summary_by_series[name_divided_segment(arm, segment), str(metric)]
                series = PRE_TEST_SERIES[arm].of(str(metric))
                arm_summaries.append(replace(summary, segment=segment, metric=series))
            baseline, candidate = arm_summaries
            compared += _measure_gaps(metric, k, baseline, candidate)
            compared += arm_summaries
    return tuple(compared)


def _measure_gaps(metric: Metric, k: int, baseline: Summary, candidate: Summary) -> list[Summary]:
    """Return the self gap, and the far gap if the metric has one."""
    segment = baseline.segment
    users = baseline.n + candidate.n
    lowest_score, highest_score = metric.bounds(k)
    largest_self_gap = highest_score - lowest_score
    self_gap = mean_gap(baseline, candidate)
    # The self gap is above 0 if the candidate's users moved farther, whatever the metric does.
    if not metric.higher_is_more_alike:
        self_gap = replace(self_gap, value=-self_gap.value)
    name = DerivedMetric.SELF_GAP.of(str(metric))
    summaries = [_summarize_gap(self_gap, segment, name, users, largest_self_gap)]
    far_statistic = find_far_statistic(metric)
    if far_statistic is not None:
        far_gap = share_gap(count_far(baseline, far_statistic), count_far(candidate, far_statistic))
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
