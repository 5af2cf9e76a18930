"""Measures runs, which `judgement` then judges.

The stages are to read users, pull lists, pair them, score them, summarize the scores, measure the
arms and explain the result. This module does not judge or store anything.
"""

from dataclasses import replace
from datetime import datetime
from functools import partial

from monitor.model.errors import MetricError
from monitor.model.immutable import immutable
from monitor.model.memory import Memory
from monitor.model.model_versions import follow
from monitor.model.rankings import Arm, Coverage, Notes
from monitor.model.rules import Comparison, Keep
from monitor.model.run_reasons import RunReasons
from monitor.model.runs import Findings
from monitor.model.statistics import NoiseFloor
from monitor.pipeline.accumulator import RemoteMeasurer, RunAccumulator, users_in_sample
from monitor.pipeline.answers import open_answers
from monitor.pipeline.earlier_lists import measure_arm_scores, recode_earlier
from monitor.pipeline.freshness import summarize_gaps
from monitor.pipeline.pull import Arms
from monitor.pipeline.respelled import explain_missing_users
from monitor.pipeline.run_explanation import explain_run, note_sample
from monitor.pipeline.run_scores import RunScores, draw_scores, without_floor
from monitor.pipeline.stopwatch import Stopwatch
from monitor.pipeline.titles import add_titles


@immutable
class Measurement:
    """What a run measured, and sentences about what it could not measure.

    - ``notes`` say for each arm and reason what happened first, with example users.
    - ``left_out`` are sentences about what should have been measured but was not.
    - ``doubts`` are reasons why the noise floor is not judged.
    """

    run: Findings
    coverage: Coverage
    notes: Notes
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
    sampled_users: int | None = None,
) -> Measurement:
    """Measure one slot. ``scores`` collects the scores that are stored or written.

    Raises SourceError if the users cannot be read. All other faults are counted in the
    coverage.
    """
    measuring = comparison.measuring
    sampled_users = sampled_users or users_in_sample(measuring.k)
    seconds_left = partial(watch.seconds_left, measuring.deadline)
    if watch.clock.now() < slot + measuring.relevance_after:
        # Labels must not be read too early, because incomplete labels look complete.
        arms = replace(arms, relevance=None)
    scores = RunScores() if scores is None else scores
    keep = measuring.keep_scores if arms.scores_to is None else Keep.ALL
    with open_answers(comparison, arms, slot, watch, memory) as answers:
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
        for measured in accumulator.measure(answers, measurer, watch, batch_users):
            answers.scored(measured)
            scores.add(draw_scores(without_floor(measured), keep, comparison))
    scores.failed = accumulator.part.failed
    run, sample = accumulator.finish(slot, answers.weights, answers.relevance)
    coverage = accumulator.coverage
    notes = accumulator.notes
    left_out = [*answers.lacks]
    if measuring.noise_floor is NoiseFloor.TEMPORAL and memory.last_lists is None:
        left_out.append("noise_floor: no earlier run has stored its lists")
    left_out += accumulator.left_out
    mismatches = run.id_mismatches
    if not comparison.judging.shows_items:
        mismatches = tuple(mismatch.without_examples for mismatch in mismatches)
    mismatches += explain_missing_users(arms, coverage, slot, seconds_left())
    with watch.stage("arms"):
        last, former = recode_earlier(memory, measuring, sample)
        arm_scores = measure_arm_scores(measuring, sample, last=last, former=former)
    split, explanation = None, None
    with watch.stage("explain"):
        try:
            split, explanation = explain_run(
                comparison,
                sample,
                accumulator.metrics,
                memory,
                former=former,
                last=last,
                mismatches=mismatches,
                notes=notes,
            )
        except MetricError as error:
            # A plugin's metric may fail for pairs of lists of different runs.
            left_out.append(f"not explained: {error}")
        explanation = note_sample(explanation, sample.coverage.all.asked, answers.asked.count)
        explanation, titles_error = add_titles(explanation, arms.titles, slot, seconds_left())
        left_out += filter(None, [titles_error])
    last_models = None if memory.last_ok is None else memory.last_ok.models
    run = replace(
        run,
        scores=scores if scores.count else None,
        arm_scores=arm_scores,
        is_labelled=answers.relevance is not None,
        split=split,
        explanation=explanation,
        pull_seconds=answers.seconds or dict.fromkeys(Arm, watch.seconds["pull"]),
        gap_s=summarize_gaps(answers.gaps),
        models=follow(last_models, accumulator.part.versions, slot),
        id_mismatches=mismatches,
    )
    return Measurement(
        run=run,
        coverage=coverage,
        notes=notes,
        left_out=tuple(left_out),
        doubts=tuple(answers.doubts),
    )
