"""Measures a run's users in batches, and adds up what was measured.

The result does not depend on the order and number of the batches.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

import pandas as pd
import pyarrow as pa

from monitor.measures.metrics import Metric, parse
from monitor.measures.pairing.list_tables import sort_users
from monitor.measures.pairing.pairs import count_coverage, pair_kept, pair_users
from monitor.measures.sampling import draw_subset, hash_users, select_kept
from monitor.measures.summaries import SegmentRows, SummaryAccumulator, rows_of_segments
from monitor.model.errors import SourceError
from monitor.model.immutable import immutable
from monitor.model.rankings import (
    ALL,
    AskedUsers,
    Coverage,
    CoverageReason,
    ItemWeights,
    Notes,
    Pairing,
    RelevanceTable,
    UserBatch,
)
from monitor.model.rules import Comparison, Keep
from monitor.model.runs import MeasuredRun, Scores
from monitor.model.statistics import parse_derived
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.pull import SourceAnswers
from monitor.pipeline.run_parts import RunPart, build_coverage, counts_of, pack_part, unpack_part
from monitor.pipeline.run_scores import draw_scores, join_scores, name_stored_series
from monitor.pipeline.score import (
    find_worst_similarity,
    leading_metric,
    run_statistics,
    score_pairs,
)
from monitor.pipeline.shown_users import (
    add_user_tables,
    join_user_tables,
    lists_of_table,
    make_user_table,
    representative_evidence,
    scores_of_table,
    stored_lists,
    worst_evidence,
)
from monitor.pipeline.stopwatch import Stopwatch
from monitor.pipeline.user_batches import users_at_once

SUBSET_USERS = 100_000
_FEWEST_SUBSET_USERS = 20_000
_SUBSET_ITEMS = 5_000_000
_LONGEST_USER = 40
"""In notes, users' ids are cut to this many characters."""


@immutable
class Subset:
    """The paired users of a random subset, in sorted order, with their segments and scores.

    ``coverage`` also counts users of the subset that were not paired.
    """

    pairing: Pairing
    segments: SegmentRows
    scores: Scores
    coverage: Coverage


def users_in_subset(k: int) -> int:
    """Return about how many users the subset of a run has. A smaller run is its own subset.

    The users of a subset have about `_SUBSET_ITEMS` items in each arm. There are at least
    `_FEWEST_SUBSET_USERS` and at most `SUBSET_USERS` users.

    Explanations, arm metrics and the selection of representative users use the subset, because
    they need all its users in memory at once.
    """
    return max(_FEWEST_SUBSET_USERS, min(SUBSET_USERS, _SUBSET_ITEMS // k))


class RunAccumulator:
    """Measures batches of a run's users, and adds up what was measured in `part`."""

    def __init__(
        self,
        comparison: Comparison,
        asked: AskedUsers,
        stage: Callable[[str], AbstractContextManager[object]] = nullcontext,
        *,
        subset_users: int = SUBSET_USERS,
    ) -> None:
        """Begin without users."""
        self._comparison = comparison
        self._statistics = run_statistics(comparison)
        self._segments = asked.segments
        self._stage = stage
        self._subset_share = subset_users / max(1, asked.count)
        self.part = RunPart(sums=SummaryAccumulator(self._segments, self._statistics))

    def measure(
        self,
        answers: SourceAnswers,
        measurer: "RemoteMeasurer",
        stopwatch: Stopwatch,
        batch_users: int | None,
    ) -> Iterator[Scores]:
        """Measure all users in batches. Yields the scores of each batch, by the stored series.

        A batch has at most ``batch_users`` users (default: `users_at_once`). The users are measured
        here, or by the ``measurer`` on the machines that have their lists. The time of waiting for
        batches is added to the stage ``pull`` of the ``stopwatch``.
        """
        size = batch_users or users_at_once(self._comparison.measuring.k)
        if answers.measure_remotely is None:
            for batch in stopwatch.iterate("pull", answers.batches(size)):
                scores = self.add(batch)
                # `pull_until_certain` reads no more batches if these scores decide all rules.
                answers.on_scores(scores)
                yield name_stored_series(scores, batch.arm)
        else:
            for packed in stopwatch.iterate("pull", answers.measure_remotely(measurer, size)):
                yield name_stored_series(self.merge(packed))

    def add(self, batch: UserBatch) -> Scores:
        """Pair and score the next batch, and add it. Returns the scores of the paired users."""
        measuring = self._comparison.measuring
        part = self.part
        with self._stage("pair"):
            pairing = pair_users(
                batch.panel,
                batch.baseline,
                batch.candidate,
                measuring.k,
                item_weights=batch.weights,
                relevance=batch.relevance,
                id_comparison=part.id_comparison,
            )
        with self._stage("score"):
            scored = score_pairs(measuring, batch, pairing, part.failed_metrics)
        with self._stage("summarize"):
            segment_rows = rows_of_segments(batch.panel, pairing.panel_rows)
            users = batch.panel.users[pairing.panel_rows]
            scores = Scores(users=users, by_metric=scored.by_metric)
            worst_similarity = find_worst_similarity(
                self._comparison, scores, scored.metrics, part.failed_metrics
            )
            # What is added up over all users:
            part.metrics |= dict.fromkeys(map(str, scored.metrics))
            part.unmeasured |= dict.fromkeys(scored.left_out)
            part.sums.add(segment_rows, scored.by_metric, scored.bounds)
            hashes = hash_users(batch.panel.users, self._comparison)
            part.add_lists(batch, pairing, hashes)
            is_in_subset = draw_subset(batch.panel, self._subset_share, hashes)
            subset_segments = {}
            for segment, positions in batch.panel.segments.items():
                subset_segments[segment] = positions[is_in_subset[positions]]
            part.subset.update(counts_of(count_coverage(subset_segments, pairing.outcomes)))
            # What is collected of some users:
            shown = make_user_table(
                pairing,
                scores,
                segment_rows,
                self._segments,
                is_in_subset=is_in_subset[pairing.panel_rows],
                is_stored=select_kept(users, measuring.keep_lists, self._comparison),
                worst_similarity=worst_similarity,
            )
            add_user_tables(part.users, [shown], self._comparison)
        return scores

    def merge(self, packed: bytes) -> Scores:
        """Add what another process measured. Returns the scores in ``packed``.

        Raises SourceError if the bytes cannot be read.
        """
        try:
            part, scores = unpack_part(packed, SummaryAccumulator(self._segments, self._statistics))
        except ValueError as error:
            msg = (
                f"the engine returned bytes that are not a part of a run ({error}): "
                "install the same version of rankwatch on all machines"
            )
            raise SourceError(msg, permanent=False) from None
        self.part.merge(part)
        add_user_tables(self.part.users, part.users, self._comparison)
        return scores

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that were measured and did not fail."""
        return tuple(
            parse(name) for name in self.part.metrics if name not in self.part.failed_metrics
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what could not be measured."""
        part = self.part
        note = part.listed.unweighted_note
        return (*part.unmeasured, *part.failed_metrics.values(), *filter(None, [note]))

    @property
    def notes(self) -> Notes:
        """Notes that say for each arm and reason what happened first, and to which users.

        If an arm could not be read at all, no users are named.
        """
        notes = {}
        for (arm, reason), note in self.part.notes.items():
            users = [user[:_LONGEST_USER] for user in note.users]
            if reason is CoverageReason.UNAVAILABLE:
                users = []
            notes[arm, reason] = replace(note, users=tuple(users))
        return notes

    @property
    def coverage(self) -> Coverage:
        """The coverage of all users that were asked for."""
        return build_coverage(self.part.coverage, self._segments)

    def join_shown_users(self) -> pa.Table:
        """Join the tables of users that are shown or whose lists are stored, and return the table.

        The users are in any order.
        """
        self.part.users = [join_user_tables(self.part.users, self._comparison)]
        return self.part.users[0]

    def finish(
        self,
        slot: datetime,
        weights: ItemWeights | None = None,
        relevance: RelevanceTable | None = None,
    ) -> tuple[MeasuredRun, Subset]:
        """Return what was measured of all users, and the subset.

        Metrics that failed for some users are left out. ``weights`` and ``relevance`` are used to
        pair the subset.
        """
        measuring = self._comparison.measuring
        part = self.part
        metric = leading_metric(self._comparison, self.metrics)
        subset = self._pair_subset(weights, relevance)
        users = self.join_shown_users()
        summaries = []
        for summary in part.sums.summaries():
            if parse_derived(summary.metric).metric not in part.failed_metrics:
                summaries.append(summary)
        evidence = worst_evidence(users, part.failed_metrics)
        median = None
        for summary in summaries:
            if (summary.segment, summary.metric) == (ALL, str(metric)):
                median = summary.value("p50")
        if median is not None:
            values = subset.scores.by_metric[str(metric)]
            score_of_user = pd.Series(values, index=subset.scores.users)
            count = measuring.evidence_users
            evidence += representative_evidence(
                users, score_of_user, median, count, part.failed_metrics
            )
        lists = None
        if measuring.keep_lists is not Keep.NONE:
            lists = stored_lists(users, self._segments)
        measured = replace(
            part.make_measured_run(slot, measuring.catalogue_size),
            coverage=self.coverage,
            summaries=tuple(summaries),
            evidence=tuple(evidence),
            lists=lists,
        )
        return measured, subset

    def _pair_subset(self, weights: ItemWeights | None, relevance: RelevanceTable | None) -> Subset:
        """Pair the users of the subset again, and return the subset.

        Each batch had its own item codes. Now all users of the subset get common item codes.
        """
        users = self.join_shown_users()
        # The users are sorted, because the last digits of sums over users depend on the order.
        users = sort_users(users, users["is_in_subset"])
        lists = lists_of_table(users, self._segments)
        return Subset(
            pairing=pair_kept(lists, self._comparison.measuring.k, weights, relevance),
            segments=lists.segments,
            scores=scores_of_table(users),
            coverage=build_coverage(self.part.subset, self._segments),
        )


@dataclass(frozen=True, kw_only=True)
class RemoteMeasurer:
    """Measures users on the machines that have their lists. Implements the port Measurer.

    The object can be pickled. ``keep`` says which users' scores are returned. A result has the
    measured part of the run and the scores, as bytes (`pack_part`).
    """

    comparison: Comparison
    asked: AskedUsers
    weights: ItemWeights | None
    relevance: RelevanceTable | None
    subset_users: int
    keep: Keep | int
    pseudonyms: Pseudonyms | None

    def measure(self, users: UserBatch) -> bytes:
        """Measure these users, and return the result."""
        if self.pseudonyms is not None:
            users = self.pseudonyms.hide_batch(users)
        accumulator = self._new_accumulator()
        scores = accumulator.add(replace(users, weights=self.weights, relevance=self.relevance))
        return self._pack(accumulator, [scores])

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """Merge the results of several calls of `measure`."""
        accumulator = self._new_accumulator()
        return self._pack(accumulator, list(map(accumulator.merge, parts)))

    def _new_accumulator(self) -> RunAccumulator:
        return RunAccumulator(self.comparison, self.asked, subset_users=self.subset_users)

    def _pack(self, accumulator: RunAccumulator, scores: Sequence[Scores]) -> bytes:
        drawn = draw_scores(join_scores(scores), self.keep, self.comparison)
        accumulator.join_shown_users()
        return pack_part(accumulator.part, drawn)
