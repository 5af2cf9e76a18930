"""Measures runs, which `judgement` then judges.

The stages are to read users, pull lists, pair them, score them, summarize the scores, measure the
arms and explain the result. This module does not judge or store anything.
"""

from dataclasses import replace
from datetime import datetime

from monitor.model.immutable import extend
from monitor.model.memory import Memory
from monitor.model.model_versions import follow_models
from monitor.model.rankings import Arm
from monitor.model.rules import Comparison, Keep
from monitor.pipeline.accumulator import RemoteMeasurer, RunAccumulator, users_in_subset
from monitor.pipeline.answers import open_answers
from monitor.pipeline.earlier_lists import recode_earlier
from monitor.pipeline.freshness import summarize_gaps
from monitor.pipeline.item_titles import add_titles
from monitor.pipeline.measured_users import MeasuredUsers, Measurement
from monitor.pipeline.paired_users import PairedSteps
from monitor.pipeline.pull import ComparisonSources, SlotContext
from monitor.pipeline.run_scores import RunScores, draw_scores
from monitor.pipeline.stopwatch import Stopwatch
from monitor.pipeline.unpaired_users import UnpairedSteps, read_unpaired


def measure_slot(  # noqa: PLR0913 - ``batch_users`` and ``subset_users`` are for tests
    comparison: Comparison,
    sources: ComparisonSources,
    slot: datetime,
    memory: Memory,
    stopwatch: Stopwatch,
    *,
    scores: RunScores | None = None,
    batch_users: int | None = None,
    subset_users: int | None = None,
) -> Measurement:
    """Measure one slot. ``scores`` collects the scores that are stored or written.

    Batches have ``batch_users`` users, and the cause of a change is searched among
    ``subset_users`` users. The defaults fit the lists' length.

    Raises SourceError if the users cannot be read, or if the planned split of an unpaired
    comparison has changed. All other faults are counted in the coverage.
    """
    measuring = comparison.measuring
    subset_users = subset_users or users_in_subset(measuring.k)
    if stopwatch.clock.now() < slot + measuring.relevance_after:
        # Relevance must not be read too early, because incomplete relevance looks complete.
        sources = replace(sources, relevance=None)
    scores = RunScores() if scores is None else scores
    # If the scores are also written to a sink, all of them are needed.
    keep = measuring.keep_scores if sources.scores_to is None else Keep.ALL
    context = SlotContext(
        comparison=comparison, sources=sources, slot=slot, memory=memory, stopwatch=stopwatch
    )
    steps: PairedSteps | UnpairedSteps = extend(PairedSteps, context)
    if measuring.unpaired is not None:
        steps = read_unpaired(context, measuring.unpaired)
    with open_answers(steps) as answers:
        divided_answers = steps.divide_by_arm(answers)
        accumulator = RunAccumulator(
            comparison, divided_answers.asked, stopwatch.stage, subset_users=subset_users
        )
        measurer = RemoteMeasurer(
            comparison=comparison,
            asked=answers.asked,
            weights=answers.weights,
            relevance=answers.relevance,
            subset_users=subset_users,
            keep=keep,
            pseudonyms=sources.pseudonyms,
        )
        for batch_scores in accumulator.measure(divided_answers, measurer, stopwatch, batch_users):
            scores.add(draw_scores(batch_scores, keep, comparison))
    scores.failed = accumulator.part.failed_metrics
    run, subset = accumulator.finish(slot, answers.weights, answers.relevance)
    last_models = None if memory.last_ok is None else memory.last_ok.models
    run = replace(
        run,
        scores=scores if scores.count else None,
        pull_seconds=answers.seconds or dict.fromkeys(Arm, stopwatch.seconds["pull"]),
        gap_s=summarize_gaps(answers.arrival_gaps),
        models=follow_models(last_models, accumulator.part.versions, slot),
    )
    with stopwatch.stage("arms"):
        last, former = recode_earlier(memory, measuring, subset)
        measured_users = MeasuredUsers(
            run=run,
            subset=subset,
            accumulator=accumulator,
            answers=answers,
            last=last,
            former=former,
        )
        measured_users = replace(measured_users, run=steps.measure_arms(measured_users))
    with stopwatch.stage("explain"):
        measurement = steps.explain(measured_users)
        explanation, titles_error = add_titles(
            measurement.run, sources.titles, context.seconds_left()
        )
    left_out = measurement.left_out
    if titles_error is not None:
        left_out = (*left_out, titles_error)
    run = replace(measurement.run, explanation=explanation)
    return replace(measurement, run=run, left_out=left_out)
