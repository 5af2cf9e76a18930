"""Relevance that arrives after the run: measure it on the lists that were kept. Never judged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from monitor.errors import DatabaseError, SourceError
from monitor.metrics import Metric
from monitor.model.comparison import Comparison
from monitor.model.rankings import RelevanceTable
from monitor.model.runs import Run, Summary
from monitor.pipeline.pull import ask_in_time
from monitor.pipeline.score import (
    draw_scores,
    relevance_metrics,
    score_kept_lists,
    summarize_scores,
)
from monitor.ports import Clock, RelevanceSource, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfilledRun:
    """What became of one run that waited for relevance."""

    run: Run
    summaries: tuple[
        Summary, ...
    ] = ()  # those added; empty, with no trouble, when nothing has arrived yet
    trouble: str | None = None  # what stood in the way


def backfill_relevance(
    comparison: Comparison,
    store: Store,
    source: RelevanceSource,
    clock: Clock,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Iterator[BackfilledRun]:
    """Measure what is known by now for each run that waits and may ask, oldest first, and store it; what became of each.

    Runs of slots from ``start`` to ``end``, both included; nothing is ever added twice. Ends early where the source fails.
    """
    measuring = comparison.measuring
    metrics = relevance_metrics(measuring)
    if not metrics or measuring.relevance_within is None:
        return
    timeout_s = measuring.deadline.total_seconds()  # it may take no longer than a run
    late = f"relevance of {comparison.name}: no answer within {timeout_s:.0f} s"
    for run in store.runs.awaiting_relevance(
        comparison.name, since=start or clock.now() - measuring.relevance_within
    ):
        if (
            end is not None and run.slot > end
        ) or clock.now() < run.slot + measuring.relevance_after:
            return
        try:
            table = ask_in_time(partial(source.relevance, run.slot), timeout_s, late)
        except SourceError as error:
            yield BackfilledRun(run=run, trouble=str(error))
            # The source is away: the next call goes on.
            if not error.permanent:
                return
        else:
            yield (
                BackfilledRun(run=run)
                if table is None
                else _fill(comparison, store, clock, run, table, metrics)
            )


def _fill(
    comparison: Comparison,
    store: Store,
    clock: Clock,
    run: Run,
    table: RelevanceTable,
    metrics: Sequence[Metric],
) -> BackfilledRun:
    try:
        lists = store.history.kept_lists(run.id)
    except DatabaseError as error:
        if not error.permanent:
            raise
        return BackfilledRun(run=run, trouble=str(error))
    if lists is None:
        return BackfilledRun(run=run, trouble="its lists were deleted meanwhile")
    # The run was compared at its own k; the configuration may have another by now.
    k = run.k or comparison.measuring.k
    scores = score_kept_lists(lists, k, metrics, table)
    summaries = summarize_scores(
        comparison.judging.similarity_rules, k, lists.segments, scores, metrics
    )
    kept = draw_scores(scores, comparison.measuring.keep_scores, comparison)
    if not store.runs.store_relevance(
        run, summaries=summaries, scores=kept if len(kept.users) else None, at=clock.now()
    ):
        return BackfilledRun(run=run, trouble="it was measured anew meanwhile")
    return BackfilledRun(run=run, summaries=summaries)
