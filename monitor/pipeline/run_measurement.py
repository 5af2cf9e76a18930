"""Measures runs, which `judgement` then judges.

The stages are to read users, pull lists, pair them, score them, summarize the scores, measure the
arms and explain the result. This module does not judge or store anything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from monitor.measures.arm_metrics import measure_arms, parse_arm_metric
from monitor.measures.pairing.id_mismatches import LEAST_COMMON, find_user_mismatch
from monitor.model.errors import ConfigError, MetricError, SourceError
from monitor.model.explanation import Explanation, Split
from monitor.model.immutable import immutable
from monitor.model.memory import Memory
from monitor.model.model_versions import follow
from monitor.model.ports import Clock
from monitor.model.rankings import Arm, Coverage, CoverageNote, CoverageReason
from monitor.model.rules import Comparison, Keep, MeasuringPlan
from monitor.model.run_reasons import IdMismatch, RunReasons
from monitor.model.runs import ArmScore, Findings, KeptLists, Scores
from monitor.model.statistics import DerivedMetric, NoiseFloor, parse_derived
from monitor.model.unpaired import ARM_COLUMN
from monitor.pipeline.accumulator import (
    SAMPLED_USERS,
    RemoteMeasurer,
    RunAccumulator,
    Sample,
)
from monitor.pipeline.earlier_lists import RecodedLists, recode_lists
from monitor.pipeline.freshness import summarize_gaps
from monitor.pipeline.pull import (
    Answers,
    Arms,
    ask_in_time,
    draw_panel,
    join_all,
    pull_all,
    pull_arms,
    pull_titles,
    pull_until_certain,
)
from monitor.pipeline.run_explanation import add_titles, explain_run, explained_items
from monitor.pipeline.run_scores import RunScores, draw_scores
from monitor.pipeline.user_batches import users_at_once

_T = TypeVar("_T")


@dataclass(slots=True)
class Stopwatch:
    """Measures the seconds that each stage takes."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the `with` block takes to the time of the stage."""
        start = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - start

    def iterate(self, name: str, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items. Adds the time that the caller waits for them to the stage."""
        iterator = iter(items)
        while True:
            with self.stage(name):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


@immutable
class Measurement:
    """What a run measured, and sentences about what it could not measure.

    - ``notes`` say for each arm and reason what happened first, with example users.
    - ``left_out`` are sentences about what should have been measured but was not.
    - ``doubts`` are reasons why the noise floor is not judged.
    """

    run: Findings
    coverage: Coverage
    notes: Mapping[tuple[Arm, CoverageReason], CoverageNote]
    left_out: tuple[str, ...]
    doubts: RunReasons = ()


def measure_slot(  # noqa: PLR0913 - the last two are for tests
    comparison: Comparison,
    arms: Arms,
    slot: datetime,
    memory: Memory,
    watch: Stopwatch,
    *,
    scores: RunScores | None = None,
    batch_users: int | None = None,
    sampled_users: int = SAMPLED_USERS,
) -> Measurement:
    """Measure one slot. ``scores`` collects the scores that are stored or written.

    Raises SourceError if the users cannot be read. All other faults are counted in the
    coverage.
    """
    measuring = comparison.measuring
    ends_at = watch.clock.monotonic() + measuring.deadline.total_seconds()

    def seconds_left() -> float:
        return ends_at - watch.clock.monotonic()

    if watch.clock.now() < slot + measuring.relevance_after:
        # Labels must not be read too early, because incomplete labels look complete.
        arms = replace(arms, relevance=None)
    scores = RunScores() if scores is None else scores
    keep = measuring.keep_scores if arms.scores_to is None else Keep.ALL
    with open_answers(comparison, arms, slot, watch, seconds_left, memory) as answers:
        accumulator = RunAccumulator(
            comparison, answers.asked, watch.stage, sampled_users=sampled_users
        )
        measurer = RemoteMeasurer(
            comparison=comparison,
            asked=answers.asked,
            weights=answers.weights,
            relevance=answers.relevance,
            sampled_users=sampled_users,
            keep=keep,
            pseudonyms=arms.pseudonyms,
        )
        size = batch_users or users_at_once(measuring.k)
        for measured in _measure_batches(accumulator, answers, measurer, watch, size):
            answers.scored(measured)
            scores.add(draw_scores(_without_floor(measured), keep, comparison))
    scores.failed = accumulator.part.failed
    sample = accumulator.sample(answers.weights, answers.relevance)
    run = accumulator.findings(slot, sample)
    mismatches = run.id_mismatches
    if not comparison.judging.shows_items:
        mismatches = tuple(mismatch.without_examples for mismatch in mismatches)
    mismatches += explain_missing_users(arms, accumulator.coverage, slot, seconds_left())
    left_out = [*answers.lacks]
    if measuring.noise_floor is NoiseFloor.TEMPORAL and memory.last_lists is None:
        left_out.append("noise_floor: no earlier run has stored its lists")
    left_out += accumulator.left_out
    with watch.stage("arms"):
        last, former = recode_earlier(memory, measuring, sample)
        arm_scores = measure_arm_scores(measuring, sample, last=last, former=former)
    with watch.stage("explain"):
        split, explanation, error = _explain(
            comparison, accumulator, sample, memory, last=last, former=former, mismatches=mismatches
        )
        sampled = sample.coverage.all.asked
        explanation = note_sample(explanation, sampled, answers.asked.count)
        items = explained_items(explanation)
        titles, titles_error = pull_titles(arms.titles, slot, items, seconds_left())
        left_out += filter(None, (error, titles_error))
    run = replace(
        run,
        scores=scores if scores.count else None,
        arm_scores=arm_scores,
        is_labelled=answers.relevance is not None,
        split=split,
        explanation=add_titles(explanation, titles),
        pull_seconds=answers.seconds or dict.fromkeys(Arm, watch.seconds["pull"]),
        gap_s=summarize_gaps(answers.gaps),
        models=follow(
            memory.last_ok.models if memory.last_ok else None, accumulator.part.versions, slot
        ),
        id_mismatches=mismatches,
    )
    return Measurement(
        run=run,
        coverage=accumulator.coverage,
        notes=accumulator.notes,
        left_out=tuple(left_out),
        doubts=tuple(answers.doubts),
    )


def _measure_batches(
    accumulator: RunAccumulator,
    answers: Answers,
    measurer: RemoteMeasurer,
    watch: Stopwatch,
    size: int,
) -> Iterator[Scores]:
    """Measure all users, at most ``size`` at once. Yields the scores of the paired users.

    The users are measured here, or on the machines that have their lists.
    """
    if answers.measured is None:
        for batch in watch.iterate("pull", answers.batches(size)):
            yield accumulator.add(batch)
        return
    for packed in watch.iterate("pull", answers.measured(measurer, size)):
        yield accumulator.merge(packed)


def _explain(  # noqa: PLR0913 - the past has three: memory, last and former
    comparison: Comparison,
    accumulator: RunAccumulator,
    sample: Sample,
    memory: Memory,
    *,
    last: RecodedLists | None,
    former: RecodedLists | None,
    mismatches: Sequence[IdMismatch],
) -> tuple[Split | None, Explanation | None, str | None]:
    """Return the split, the explanation and an error of a run.

    The error is a sentence if a plugin's metric failed, and the other two are None then. Otherwise
    the error is None. ``last`` and ``former`` are the recoded lists of `recode_earlier`, made
    from the lists in ``memory``.
    """
    try:
        split, explanation = explain_run(
            comparison,
            sample,
            accumulator.metrics,
            memory.splits,
            former=former,
            last=last,
            mismatches=mismatches,
            notes=accumulator.notes,
        )
    except MetricError as error:
        return None, None, f"not explained: {error}"
    # Without paired users the run is not compared with an earlier run.
    if explanation is not None and explanation.paired:
        explanation = replace(explanation, since=memory.former_slot)
    return split, explanation, None


def _without_floor(scores: Scores) -> Scores:
    """Leave out the noise floor's scores. They can be computed from the scores and the excess."""
    by_metric = {
        name: values
        for name, values in scores.by_metric.items()
        if parse_derived(name)[0] is not DerivedMetric.FLOOR
    }
    return replace(scores, by_metric=by_metric)


@contextmanager
def open_answers(
    comparison: Comparison,
    arms: Arms,
    slot: datetime,
    watch: Stopwatch,
    seconds_left: Callable[[], float],
    memory: Memory,
) -> Iterator[Answers]:
    """Yield all answers. If no source joins them, a panel is drawn and its lists are pulled."""
    sample = comparison.measuring.sample
    needs_last_lists = (
        comparison.measuring.noise_floor is NoiseFloor.TEMPORAL and memory.last_lists is not None
    )
    if arms.joined is not None and sample is None and not needs_last_lists:
        with ExitStack() as reading:
            with watch.stage("users"):
                joined = join_all(comparison, arms, arms.joined, slot, seconds_left())
                answers = reading.enter_context(joined)
            yield answers
        return
    unpaired = arms.unpaired
    if unpaired is not None:
        arms = replace(arms, dimensions=(*arms.dimensions, ARM_COLUMN))
    with watch.stage("users"):
        panel = draw_panel(comparison, arms, slot, seconds_left())
    if unpaired is not None:
        yield pull_arms(comparison, arms, unpaired, panel, slot, seconds_left)
        return
    with watch.stage("pull"):
        stops_early = sample is not None and sample.stops_early
        pull = pull_until_certain if stops_early else pull_all
        answers = pull(comparison, arms, panel, slot, seconds_left(), memory)
    yield answers


def note_sample(explanation: Explanation | None, sampled: int, asked: int) -> Explanation | None:
    """Say in the explanation that only a sample was seen, if it was."""
    if explanation is None or sampled == asked:
        return explanation
    sentence = f"{explanation.sentence} (seen in a sample of {sampled:,} of {asked:,} users)"
    return replace(explanation, sentence=sentence)


def measure_arm_scores(
    measuring: MeasuringPlan,
    sample: Sample,
    *,
    last: RecodedLists | None,
    former: RecodedLists | None,
) -> tuple[ArmScore, ...]:
    """Measure the arm metrics of the plan. ``last`` and ``former`` are those of `recode_earlier`."""
    if not measuring.arm_metrics:
        return ()
    return measure_arms(
        sample.pairing.batch,
        sample.segments,
        [parse_arm_metric(name) for name in measuring.arm_metrics],
        catalogue_size=measuring.catalogue_size,
        last=None if last is None else last.last_lists,
        former=None if former is None else former.last_lists,
    )


def recode_earlier(
    memory: Memory,
    measuring: MeasuringPlan,
    sample: Sample,
) -> tuple[RecodedLists | None, RecodedLists | None]:
    """Return the lists of the last run, and of the last run before the firing alerts began.

    Usually these are the same run. A value is None if no run has stored such lists.
    """

    def recode(lists: KeptLists | None) -> RecodedLists | None:
        if lists is None:
            return None
        return recode_lists(lists, sample.scores.users, sample.pairing, measuring.k)

    last = recode(memory.last_lists)
    if memory.former_lists is memory.last_lists:
        return last, last
    return last, recode(memory.former_lists)


def explain_missing_users(
    arms: Arms,
    coverage: Coverage,
    slot: datetime,
    seconds_left: float,
) -> tuple[IdMismatch, ...]:
    """Find out how each arm that lacks nearly all users spells their ids.

    Arms that cannot list their users are left out. So are arms that spell ids as the panel does,
    because they lack the users for another reason. Each request to a source may take
    ``seconds_left``.
    """
    mismatches = []
    for arm in Arm:
        missing = coverage.all.users_by_reason.get((arm, CoverageReason.MISSING), 0)
        # If fewer users are missing, `find_user_mismatch` finds nothing, so nothing is asked.
        if missing > (1 - LEAST_COMMON) * coverage.all.asked:
            mismatches.append(compare_users(arms, arm, slot, seconds_left))
    return tuple(filter(None, mismatches))


def compare_users(
    arms: Arms,
    arm: Arm,
    slot: datetime,
    seconds_left: float,
) -> IdMismatch | None:
    """Return how this arm spells users' ids differently than the panel.

    Return None if it spells them alike, or if it cannot list its users in time.
    """
    if arm not in arms.listed or seconds_left <= 0:
        return None
    try:
        panel, listed = (
            ask_in_time(partial(source.users, slot, ()), seconds_left, "late").users
            for source in (arms.users, arms.listed[arm])
        )
    except (ConfigError, SourceError):  # pulling its lists reports the same error
        return None
    mismatch = find_user_mismatch(panel, listed)
    if mismatch is None:
        return None
    mismatch = replace(mismatch, arm=arm)
    return mismatch if arms.pseudonyms is None else mismatch.without_examples
