"""Relevance that arrives after the run: measure it on the lists that were kept. Never judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import DatabaseError, SourceError
from monitor.metrics import Metric, score_all
from monitor.model import Comparison, KeptLists, Pull, RelevanceTable, Run, Scores, Summary
from monitor.pairing import pair
from monitor.pipeline.score import relevance_metrics, summarize_scores
from monitor.ports import Clock, RelevanceSource, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfilledRun:
    """What became of one run that waited for relevance.

    ``summaries`` are those added; empty, with no ``trouble``, when nothing has arrived yet. ``trouble``: what stood in the way.
    """

    run: Run
    summaries: tuple[Summary, ...] = ()
    trouble: str | None = None


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

    Runs of slots from ``start`` (default: as far back as relevance is waited for) to ``end``, both included. Running it twice,
    or twice at once, adds nothing twice. Ends early where the source is away or hangs: the next call goes on. DatabaseError
    when the store is away.
    """
    measuring = comparison.measuring
    metrics = relevance_metrics(measuring)
    if not metrics or measuring.relevance_within is None:
        return
    for run in store.runs.awaiting_relevance(comparison.name, since=start or clock.now() - measuring.relevance_within):
        if (end is not None and run.slot > end) or clock.now() < run.slot + measuring.relevance_after:
            return
        try:
            table = _ask(comparison, source, run.slot)
        except SourceError as error:
            yield BackfilledRun(run=run, trouble=str(error))
            if not error.permanent:
                return
        else:
            yield BackfilledRun(run=run) if table is None else _fill(comparison, store, clock, run, table, metrics)


def _ask(comparison: Comparison, source: RelevanceSource, slot: datetime) -> RelevanceTable | None:
    """What is known of the slot; SourceError also when it takes longer than a run may."""
    timeout_s = comparison.measuring.deadline.total_seconds()
    try:
        call = BackgroundCall(partial(source.relevance, slot), name=f"{comparison.name}-relevance")
        return call.wait(Deadline.after(timeout_s))
    except OverdueError:
        msg = f"relevance of {comparison.name}: no answer within {timeout_s:.0f} s"
        raise SourceError(msg, permanent=False) from None


def _fill(
    comparison: Comparison, store: Store, clock: Clock, run: Run, table: RelevanceTable, metrics: Sequence[Metric]
) -> BackfilledRun:
    try:
        lists = store.history.kept_lists(run.id)
    except DatabaseError as error:
        if not error.permanent:
            raise
        return BackfilledRun(run=run, trouble=str(error))
    if lists is None:
        return BackfilledRun(run=run, trouble="its lists were deleted meanwhile")
    summaries, scores = measure_relevance(comparison, lists, table, metrics, run.k or comparison.measuring.k)
    if not store.runs.store_relevance(
        run, summaries=summaries, scores=scores if comparison.measuring.keep_scores else None, at=clock.now()
    ):
        return BackfilledRun(run=run, trouble="it was measured anew meanwhile")
    return BackfilledRun(run=run, summaries=summaries)


def measure_relevance(
    comparison: Comparison, lists: KeptLists, table: RelevanceTable, metrics: Sequence[Metric], k: int
) -> tuple[tuple[Summary, ...], Scores]:
    """Summaries by segment, and scores of every user, of these metrics on these lists, cut to k.

    Every user of the lists had been compared, so that rows, users and segments stay as they were.
    """
    baseline, candidate = (Pull(rankings=rankings, failures={}) for rankings in (lists.baseline, lists.candidate))
    pairing = pair(lists.panel, baseline, candidate, k, relevance=table)
    scores = Scores(users=lists.baseline.users, by_metric=score_all(pairing.batch, metrics))
    return summarize_scores(comparison.judging.rules, k, lists.segments, scores, metrics), scores
