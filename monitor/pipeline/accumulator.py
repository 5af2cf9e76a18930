"""Measures a run's users in batches, and adds up what was measured.

The result does not depend on the order and number of the batches.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.metrics import Metric, parse
from monitor.measures.pairing import count_coverage, pair
from monitor.measures.pairing.list_tables import sort_users, user_column, user_index
from monitor.measures.pairing.pairs import mix
from monitor.measures.sampling import hash_users, is_sampled, select_kept
from monitor.measures.summaries import (
    SegmentRows,
    SummaryAccumulator,
    ordinary_rows,
    rows_of_segments,
    worst_rows,
)
from monitor.model.arrays import Flags, Floats
from monitor.model.errors import SourceError
from monitor.model.immutable import immutable
from monitor.model.model_versions import count_versions
from monitor.model.rankings import (
    Arm,
    AskedUsers,
    Coverage,
    CoverageNote,
    CoverageReason,
    ItemWeights,
    Pairing,
    Panel,
    Pull,
    RelevanceTable,
    UserBatch,
)
from monitor.model.rules import Comparison, Keep
from monitor.model.runs import Evidence, EvidenceKind, Findings, KeptLists, Scores
from monitor.model.statistics import Statistic, parse_derived
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.run_parts import RunPart, counts_of, coverage_of, pack_part, unpack_part
from monitor.pipeline.run_scores import draw_scores, join_scores, without_failed
from monitor.pipeline.score import leading_metric, pair_kept_lists, score_pairs, wanted_statistics
from monitor.pipeline.shown_users import (
    evidence_of,
    join_users,
    kept_lists,
    scores_of,
    show_users,
)

SAMPLED_USERS = 100_000
"""The sample has about this many users. In a smaller run it has all users.

Explanations, arm metrics and the selection of ordinary users use the sample, because they need many
users in memory at once.
"""
_TOGETHER = 16
"""As soon as there are so many tables of users, they are joined into one table."""
_LONGEST_USER = 40
"""In notes, users' ids are cut to this many characters."""


@immutable
class Sample:
    """The users of the sample that were paired, in sorted order, with their segments and scores.

    ``coverage`` also counts users of the sample that were not paired.
    """

    pairing: Pairing
    segments: SegmentRows
    scores: Scores
    coverage: Coverage


class RunAccumulator:
    """Measures batches of a run's users, and adds up what was measured in `part`."""

    def __init__(
        self,
        comparison: Comparison,
        asked: AskedUsers,
        stage: Callable[[str], AbstractContextManager[object]] = nullcontext,
        *,
        sampled_users: int = SAMPLED_USERS,
        wanted: Mapping[str, Sequence[Statistic]] | None = None,
    ) -> None:
        """Begin without users. ``wanted`` are statistics of each metric (default: the rules')."""
        if wanted is None:
            wanted = wanted_statistics(comparison.judging.similarity_rules)
        self._comparison = comparison
        self._wanted = wanted
        self._segments = asked.segments
        self._stage = stage
        self._sampled_share = sampled_users / max(1, asked.count)
        self.part = RunPart(sums=SummaryAccumulator(self._segments, wanted))

    def add(self, batch: UserBatch) -> Scores:
        """Pair and score the next batch, and add it. Returns the scores of the paired users."""
        measuring = self._comparison.measuring
        part = self.part
        with self._stage("pair"):
            pairing = pair(
                batch.panel,
                batch.baseline,
                batch.candidate,
                measuring.k,
                item_weights=batch.weights,
                relevance=batch.relevance,
                compares=part.ids,
            )
        with self._stage("score"):
            scored = score_pairs(measuring, batch, pairing, part.failed)
        with self._stage("summarize"):
            self._note_answers(Arm.BASELINE, batch.baseline)
            self._note_answers(Arm.CANDIDATE, batch.candidate)
            part.listed.add(pairing)
            part.coverage.update(counts_of(pairing.coverage))
            part.metrics |= dict.fromkeys(map(str, scored.metrics))
            part.unmeasured |= dict.fromkeys(scored.left_out)
            rows = rows_of_segments(batch.panel, pairing.panel_rows)
            part.sums.add(rows, scored.by_metric, scored.bounds)
            hashes = hash_users(batch.panel.users, self._comparison)
            part.input_hash += int(mix(hashes + pairing.input_hashes).sum(dtype=np.uint64))
            is_in_sample = is_sampled(batch.panel, self._sampled_share, hashes)
            self._count_sample(batch.panel, is_in_sample, pairing)
            users = batch.panel.users[pairing.panel_rows]
            scores = Scores(users=users, by_metric=scored.by_metric)
            shown = show_users(
                pairing,
                scores,
                rows,
                self._segments,
                is_sampled=is_in_sample[pairing.panel_rows],
                is_kept=select_kept(users, measuring.keep_lists, self._comparison),
                worst_similarity=self._find_worst_similarity(scores, scored.metrics),
            )
            self._add_shown([shown])
        return scores

    def _count_sample(self, panel: Panel, is_in_sample: Flags, pairing: Pairing) -> None:
        """Count the coverage of the panel's users that are in the sample."""
        sampled = {}
        for segment, positions in panel.segments.items():
            sampled[segment] = positions[is_in_sample[positions]]
        self.part.sampled.update(counts_of(count_coverage(sampled, pairing.outcomes)))

    def _add_shown(self, tables: Sequence[pa.Table]) -> None:
        self.part.users += tables
        if len(self.part.users) >= _TOGETHER:
            self.shown_users()

    def shown_users(self) -> pa.Table:
        """Return one table of all users that are shown or whose lists are stored, in any order.

        The tables that were added are replaced by this table.
        """
        self.part.users = [join_users(self.part.users, self._comparison)]
        return self.part.users[0]

    def _note_answers(self, arm: Arm, pull: Pull) -> None:
        """Count the versions of the arm's model, and note why users have no list."""
        count_versions(self.part.versions[arm], pull.versions.items())
        for reason, text in pull.notes.items():
            users = [user for user, why in pull.failures.items() if why is reason]
            self.part.note(arm, reason, text, users)

    def _find_worst_similarity(self, scores: Scores, metrics: Iterable[Metric]) -> Floats:
        """Return the similarity of the users with the least similar lists, and NaN for all others.

        It is the score of the leading metric. A metric that grows with distance is negated.
        """
        worst_similarity = np.full(len(scores.users), np.nan)
        usable = [metric for metric in metrics if str(metric) not in self.part.failed]
        metric = leading_metric(self._comparison, usable)
        if metric is not None:
            values = scores.by_metric[str(metric)]
            if not metric.higher_is_more_alike:
                values = -values
            worst = worst_rows(values, scores.users, self._comparison.measuring.evidence_users)
            worst_similarity[worst] = values[worst]
        return worst_similarity

    def merge(self, packed: bytes) -> Scores:
        """Add what another process measured. Returns the scores in ``packed``.

        Raises SourceError if the bytes cannot be read.
        """
        try:
            part, scores = unpack_part(packed, SummaryAccumulator(self._segments, self._wanted))
        except ValueError as error:
            msg = (
                f"the engine returned bytes that are not a part of a run ({error}): "
                "install the same version of rankwatch on all machines"
            )
            raise SourceError(msg, permanent=False) from None
        self.part.merge(part)
        self._add_shown(part.users)
        return scores

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that were measured and did not fail."""
        return tuple(parse(name) for name in self.part.metrics if name not in self.part.failed)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what could not be measured."""
        part = self.part
        note = part.listed.unweighted_note
        return (*part.unmeasured, *part.failed.values(), *filter(None, [note]))

    @property
    def notes(self) -> Mapping[tuple[Arm, CoverageReason], CoverageNote]:
        """Notes that say for each arm and reason what happened first, and to which users.

        If an arm could not be read at all, no users are named.
        """
        notes = {}
        for (arm, reason), (text, users) in self.part.notes.items():
            examples: tuple[str, ...] = ()
            if reason is not CoverageReason.UNAVAILABLE:
                examples = tuple(user[:_LONGEST_USER] for user in users)
            notes[arm, reason] = CoverageNote(text=text, users=examples)
        return notes

    @property
    def coverage(self) -> Coverage:
        """The coverage of all users that were asked for."""
        return coverage_of(self.part.coverage, self._segments)

    def sample(
        self, weights: ItemWeights | None = None, relevance: RelevanceTable | None = None
    ) -> Sample:
        """Return the sample, paired with these weights and this relevance."""
        # The users are sorted, because the last digits of sums over users depend on the order.
        users = self.shown_users()
        users = sort_users(users, users["is_sampled"])
        lists = kept_lists(users, self._segments)
        k = self._comparison.measuring.k
        return Sample(
            pairing=pair_kept_lists(lists, k, weights, relevance),
            segments=lists.segments,
            scores=scores_of(users),
            coverage=coverage_of(self.part.sampled, self._segments),
        )

    def findings(self, slot: datetime, sample: Sample) -> Findings:
        """Return what was measured of all users. Leaves out metrics that failed for some users.

        ``sample`` is the result of `sample`. The ordinary users are selected from it.
        """
        part = self.part
        summaries = []
        for summary in part.sums.summaries():
            if parse_derived(summary.metric)[1] not in part.failed:
                summaries.append(summary)
        evidence = []
        for shown in (*self._worst(), *self._ordinary(sample)):
            evidence.append(replace(shown, scores=without_failed(shown.scores, part.failed)))
        known_items = self._comparison.measuring.catalogue_size or 0
        return Findings(
            slot=slot,
            coverage=self.coverage,
            summaries=tuple(summaries),
            evidence=tuple(evidence),
            catalogue_size=max(known_items, part.listed.count) or None,
            lists=self._lists(),
            input_hash=f"{part.input_hash % 2**64:016x}",
            id_mismatches=part.ids.mismatches,
        )

    def _lists(self) -> KeptLists | None:
        """Return the lists that the run stores, or None if it stores no lists."""
        if self._comparison.measuring.keep_lists is Keep.NONE:
            return None
        users = self.shown_users()
        users = sort_users(users, users["is_kept"])
        lists = kept_lists(users, self._segments)
        segments = {name: rows for name, rows in lists.segments.items() if len(rows)}
        return replace(lists, segments=segments)

    def _worst(self) -> tuple[Evidence, ...]:
        users = self.shown_users()
        worst = users.filter(users["worst_similarity"].is_valid())
        order = [("worst_similarity", "ascending"), ("user", "ascending")]
        return evidence_of(worst.sort_by(order), EvidenceKind.WORST)

    def _ordinary(self, sample: Sample) -> tuple[Evidence, ...]:
        """Return lists of users with scores nearest to the median. The worst users are left out."""
        metric = leading_metric(self._comparison, self.metrics)
        if metric is None:
            return ()
        median = self.part.sums.median(str(metric))
        if median is None:
            return ()
        users = self.shown_users()
        worst_users = user_index(users["user"].filter(users["worst_similarity"].is_valid()))
        values = sample.scores.by_metric[str(metric)].copy()
        values[sample.scores.users.isin(worst_users)] = np.nan
        rows = ordinary_rows(values, self._comparison.measuring.evidence_users, median)
        ordinary = user_column(sample.scores.users[rows])
        # The table is filtered first, because `take` would copy all lists.
        users = users.filter(pc.is_in(users["user"], value_set=ordinary))
        users = users.take(pc.index_in(ordinary, value_set=users["user"]))
        return evidence_of(users, EvidenceKind.REPRESENTATIVE)


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
    sampled_users: int
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
        return RunAccumulator(self.comparison, self.asked, sampled_users=self.sampled_users)

    def _pack(self, accumulator: RunAccumulator, scores: Sequence[Scores]) -> bytes:
        drawn = draw_scores(join_scores(scores), self.keep, self.comparison)
        accumulator.shown_users()
        return pack_part(accumulator.part, drawn)
