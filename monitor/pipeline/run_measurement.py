"""The first half of a run: pull, pair, score, summarize, measure the arms.

Nothing here judges or stores.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from monitor.arm_metrics import measure_arms, parse_arm_metric
from monitor.errors import MetricError
from monitor.model.comparison import Comparison, Keep, MeasuringPlan
from monitor.model.explanation import Explanation
from monitor.model.memory import Memory
from monitor.model.model_versions import follow
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.runs import ArmScore, MeasuredRun, Scores
from monitor.model.statistics import DerivedMetric, NoiseFloor, parse_derived
from monitor.pipeline.accumulator import SAMPLED_USERS, RunAccumulator, Sample
from monitor.pipeline.earlier_lists import RecodedLists, recode_lists
from monitor.pipeline.freshness import summarize_gaps
from monitor.pipeline.pull import (
    Answers,
    Arms,
    draw_panel,
    join_all,
    pull_all,
    pull_titles,
    pull_until_certain,
)
from monitor.pipeline.respelled import hide_examples
from monitor.pipeline.run_explanation import add_titles, explain_run, explained_items
from monitor.pipeline.run_parts import RemoteMeasurer
from monitor.pipeline.score import RunScores, draw_scores, without_failed
from monitor.pipeline.unmatched_users import explain_missing_users
from monitor.pipeline.user_batches import users_at_once
from monitor.ports import Clock

_T = TypeVar("_T")


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

    def each(self, name: str, items: Iterable[_T]) -> Iterator[_T]:
        """The items; the time that each takes to come is added to the stage."""
        waiting = iter(items)
        while True:
            with self.stage(name):
                try:
                    item = next(waiting)
                except StopIteration:
                    return
            yield item


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a run measured, and in words what it could not.

    ``notes``: of a reason, what happened first, and to whom for example; ``left_out`` are sentences
    about what was not measured although it is wanted.
    """

    run: MeasuredRun
    coverage: Coverage
    notes: Mapping[tuple[Arm, CoverageReason], str]
    left_out: tuple[str, ...]


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
    """Measure one slot; ``scores`` gathers those that are stored or written.

    SourceError when the users cannot be read; what else goes wrong is in the coverage.
    """
    measuring = comparison.measuring
    deadline = watch.clock.monotonic() + measuring.deadline.total_seconds()
    # Labels that are read too early would be taken for all there are.
    asked = (
        arms
        if watch.clock.now() >= slot + measuring.relevance_after
        else replace(arms, relevance=None)
    )
    is_temporal = measuring.noise_floor is NoiseFloor.TEMPORAL
    no_floor = (
        ("noise_floor: no earlier run kept its lists",)
        if is_temporal and memory.last_lists is None
        else ()
    )
    gathered, size = scores or RunScores(), batch_users or users_at_once(measuring.k)
    keep = Keep.ALL if arms.scores_to is not None else measuring.keep_scores
    with _answers(comparison, asked, slot, watch, deadline, memory) as answers:
        gather = partial(_gather, gathered, comparison, keep, answers)
        found = RunAccumulator(
            comparison, answers.asked, watch.stage, sampled_users=sampled_users, gather=gather
        )
        _add_all(
            found,
            answers,
            RemoteMeasurer(comparison, answers, sampled_users, keep, arms.pseudonyms),
            watch,
            size,
        )
    gathered.failed = found.failed
    seconds_left = deadline - watch.clock.monotonic()
    mismatches = (
        *found.id_mismatches,
        *explain_missing_users(asked, found.coverage, slot, seconds_left),
    )
    if not comparison.judging.shows_items:
        mismatches = hide_examples(mismatches)
    sample = found.sample()
    with watch.stage("arms"):
        last, former = _recode(memory, measuring, sample)
        arm_scores = _measure_arms(measuring, sample, last)
    with watch.stage("explain"):
        split, why, unexplained = None, None, None
        try:
            split, why = explain_run(
                comparison,
                sample,
                found.metrics,
                memory.splits,
                former=former,
                last=last,
                mismatches=mismatches,
                notes=found.notes,
            )
        except MetricError as error:  # of one that a package brings
            unexplained = f"not explained: {error}"
        why = why and replace(why, since=memory.former_slot if why.paired else None)
        seconds_left = deadline - watch.clock.monotonic()
        titles, untitled = pull_titles(arms.titles, slot, explained_items(why), seconds_left)
    measured = MeasuredRun(
        coverage=found.coverage,
        summaries=tuple(
            each for each in found.summaries if parse_derived(each.metric)[1] not in found.failed
        ),
        scores=gathered if gathered.count else None,
        evidence=tuple(
            replace(each, scores=without_failed(each.scores, found.failed))
            for each in found.evidence(sample)
        ),
        arm_scores=arm_scores,
        catalogue_size=max(measuring.catalogue_size or 0, found.listed.count) or None,
        lists=found.lists,
        is_labelled=answers.relevance is not None,
        split=split,
        explanation=_note_sample(
            add_titles(why, titles), sample.pairing.coverage.all.asked, answers.asked.count
        ),
        pull_seconds=answers.seconds or dict.fromkeys(Arm, watch.seconds["pull"]),
        gap_seconds=summarize_gaps(answers.gaps),
        models=follow(memory.last_ok.models if memory.last_ok else None, found.versions, slot),
        input_hash=f"{found.input_hash % 2**64:016x}",
        id_mismatches=mismatches,
    )
    left_out = (*answers.lacks, *no_floor, *found.left_out, *filter(None, [unexplained, untitled]))
    return Measurement(run=measured, coverage=found.coverage, notes=found.notes, left_out=left_out)


def _add_all(
    found: RunAccumulator, answers: Answers, there: RemoteMeasurer, watch: Stopwatch, size: int
) -> None:
    """Everybody, so many at once, here or where the lists are."""
    if answers.measured is None:
        for batch in watch.each("pull", answers.batches(size)):
            found.add(batch)
        return
    for part in watch.each("pull", answers.measured(there, size)):
        found.merge(there.unpack(part), answers.weights, answers.relevance)


def _gather(
    gathered: RunScores, comparison: Comparison, keep: Keep | int, answers: Answers, scores: Scores
) -> None:
    answers.scored(scores)
    # Without the floor's own score, which is the score and what the candidate lies beyond it.
    told = {
        name: values
        for name, values in scores.by_metric.items()
        if parse_derived(name)[0] is not DerivedMetric.FLOOR
    }
    gathered.add(draw_scores(replace(scores, by_metric=told), keep, comparison))


@contextmanager
def _answers(
    comparison: Comparison,
    arms: Arms,
    slot: datetime,
    watch: Stopwatch,
    deadline: float,
    memory: Memory,
) -> Iterator[Answers]:
    """All answers: joined where that can be, else of the panel that is drawn, pulled."""
    is_alone = (
        comparison.measuring.noise_floor is not NoiseFloor.TEMPORAL or memory.last_lists is None
    )
    if arms.joined is not None and comparison.measuring.sample is None and is_alone:
        with ExitStack() as reading:
            with watch.stage("users"):
                joined = join_all(
                    comparison, arms, arms.joined, slot, deadline - watch.clock.monotonic()
                )
                answers = reading.enter_context(joined)
            yield answers
        return
    with watch.stage("users"):
        panel = draw_panel(comparison, arms, slot, deadline - watch.clock.monotonic())
    with watch.stage("pull"):
        pull = (
            pull_until_certain
            if (size := comparison.measuring.sample) and size.stops_early
            else pull_all
        )
        answers = pull(comparison, arms, panel, slot, deadline - watch.clock.monotonic(), memory)
    yield answers


def _note_sample(explanation: Explanation | None, looked_at: int, asked: int) -> Explanation | None:
    if explanation is None or looked_at == asked:
        return explanation
    return replace(
        explanation,
        sentence=f"{explanation.sentence} (seen in a sample of {looked_at:,} of {asked:,} users)",
    )


def _measure_arms(
    measuring: MeasuringPlan, sample: Sample, last: RecodedLists | None
) -> tuple[ArmScore, ...]:
    if not measuring.arm_metrics:
        return ()
    return measure_arms(
        sample.pairing.batch,
        sample.segments,
        [parse_arm_metric(name) for name in measuring.arm_metrics],
        catalogue_size=measuring.catalogue_size,
        last=None if last is None else last.last_lists,
    )


def _recode(
    memory: Memory, measuring: MeasuringPlan, sample: Sample
) -> tuple[RecodedLists | None, RecodedLists | None]:
    """Lists of the last run, and of the last one from before the alerts that last: mostly the same."""
    users, pairing = sample.scores.users, sample.pairing
    is_one = memory.former_lists is memory.last_lists
    last = (
        None
        if memory.last_lists is None
        else recode_lists(memory.last_lists, users, pairing, measuring.k)
    )
    if is_one or memory.former_lists is None:
        return last, last if is_one else None
    return last, recode_lists(memory.former_lists, users, pairing, measuring.k)
