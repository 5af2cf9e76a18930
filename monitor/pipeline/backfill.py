"""Measures metrics that need relevance, if the relevance arrives after the run.

The metrics are computed from the lists that the run stored. Rules never judge the results.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from monitor.measures.metrics import Metric
from monitor.model.errors import DatabaseError, SourceError
from monitor.model.immutable import immutable
from monitor.model.ports import Clock, RelevanceSource, Store
from monitor.model.rankings import RelevanceTable
from monitor.model.rules import Comparison
from monitor.model.runs import Run, Summary
from monitor.pipeline.pull import ask_in_time
from monitor.pipeline.run_scores import draw_scores
from monitor.pipeline.score import relevance_metrics, score_kept_lists, summarize_scores


@immutable
class BackfilledRun:
    """What happened to one run that waited for relevance.

    If ``summaries`` is empty and ``reason`` is None, relevance has not arrived yet.
    """

    run: Run
    summaries: tuple[Summary, ...] = ()  # the summaries that were stored
    reason: str | None = None  # why the run could not be measured


def backfill_relevance(
    comparison: Comparison,
    store: Store,
    source: RelevanceSource,
    clock: Clock,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Iterator[BackfilledRun]:
    """Measure and store the metrics that need relevance, for each run that waits for it.

    The oldest run comes first. Yields one result for each run with a slot from ``start`` to
    ``end``, including both. Without ``start``, it begins ``relevance_within`` ago. Stops early at a
    run whose relevance must not be read yet, or if the source fails temporarily. No result is
    stored twice.
    """
    measuring = comparison.measuring
    metrics = relevance_metrics(measuring)
    if not metrics or measuring.relevance_within is None:
        return
    timeout_s = measuring.deadline.total_seconds()
    late_message = (
        f"relevance of {comparison.name}: the source did not answer within {timeout_s:.0f} s"
    )
    since = start or clock.now() - measuring.relevance_within
    for run in store.runs.awaiting_relevance(comparison.name, since=since):
        is_after_end = end is not None and run.slot > end
        is_too_early = clock.now() < run.slot + measuring.relevance_after
        if is_after_end or is_too_early:
            return
        try:
            table = ask_in_time(partial(source.relevance, run.slot), timeout_s, late_message)
        except SourceError as error:
            yield BackfilledRun(run=run, reason=str(error))
            if not error.permanent:
                # The source is down, so the next call of this function continues here.
                return
            continue
        if table is None:
            # Relevance has not arrived yet.
            yield BackfilledRun(run=run)
        else:
            yield _backfill_run(comparison, store, clock, run, table, metrics)


def _backfill_run(
    comparison: Comparison,
    store: Store,
    clock: Clock,
    run: Run,
    table: RelevanceTable,
    metrics: Sequence[Metric],
) -> BackfilledRun:
    """Measure the relevance of one run and store it. The result says why nothing was stored.

    Raises DatabaseError if the database does not answer.
    """
    try:
        lists = store.history.kept_lists(run.id)
    except DatabaseError as error:
        if not error.permanent:
            raise
        # Only this run cannot be measured, because its lists are damaged, for example.
        return BackfilledRun(run=run, reason=str(error))
    if lists is None:
        return BackfilledRun(run=run, reason="the run's lists have been deleted")
    # The k of the configuration may have changed since the run, so the stored k is preferred.
    k = run.k or comparison.measuring.k
    scores = score_kept_lists(lists, k, metrics, table)
    summaries = summarize_scores(
        comparison.judging.similarity_rules,
        k,
        lists.segments,
        scores,
        metrics,
    )
    drawn = draw_scores(scores, comparison.measuring.keep_scores, comparison)
    if not store.runs.store_relevance(
        run,
        summaries=summaries,
        scores=drawn if len(drawn.users) else None,
        at=clock.now(),
    ):
        return BackfilledRun(run=run, reason="another process has measured the run again")
    return BackfilledRun(run=run, summaries=summaries)
