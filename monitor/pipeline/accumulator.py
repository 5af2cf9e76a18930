"""A run's measurement, gathered from batches of users: neither their order nor their number changes what is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from monitor.metrics import Metric, parse, score_all
from monitor.model import (
    Arm,
    AskedUsers,
    Comparison,
    Coverage,
    CoverageReason,
    Evidence,
    EvidenceKind,
    ItemWeights,
    Keep,
    KeptLists,
    Pairing,
    RelevanceTable,
    Scores,
    Summary,
    UserBatch,
)
from monitor.model.arrays import Flags, Floats, Rows
from monitor.pairing import ListedItems, keep_lists, sum_coverage
from monitor.pairing.ids import find_users
from monitor.pipeline.run_parts import RunPart
from monitor.pipeline.score import (
    add_floor,
    example_metric,
    measure_floor,
    scorable_metrics,
    score_ranges,
    show_user,
    wanted_statistics,
)
from monitor.pipeline.user_batches import (
    join_index,
    join_segments,
    join_tables,
    join_users,
    pair_users,
    sort_users,
    take_kept,
    take_users,
)
from monitor.sampling import is_sampled, kept_among
from monitor.summaries import SegmentRows, SummaryAccumulator, ordinary_rows, rows_of_segments, worst_rows

SAMPLED_USERS = 100_000
"""About how many users are looked at together where one user's figures do not add up with another's: to explain a run, to
measure what an arm lists to all of them, and to choose ordinary users. Where no more are asked it is everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The users that are looked at together: their pairs, one a row, rows by segment, and what they scored."""

    pairing: Pairing
    segments: SegmentRows
    scores: Scores


class RunAccumulator:
    """Pairs, scores and adds up one batch of a run's users after the other.

    ``asked``: all users; ``stage``: what measures how long a stage of the given name takes.
    """

    def __init__(
        self,
        comparison: Comparison,
        asked: AskedUsers,
        stage: Callable[[str], AbstractContextManager[object]] = nullcontext,
        sampled_users: int = SAMPLED_USERS,
    ) -> None:
        self.listed = ListedItems()
        self.metrics: tuple[Metric, ...] = ()
        self.notes: dict[tuple[Arm, CoverageReason], str] = {}  # of a reason, what happened first
        self._comparison = comparison
        self._stage = stage
        self._segments = asked.segments
        self._share = sampled_users / max(1, asked.count)
        self._summaries = SummaryAccumulator(self._segments, wanted_statistics(comparison.judging.similarity_rules))
        self._coverage: list[Coverage] = []
        self._scores: list[Scores] = []
        self._lists: list[KeptLists] = []
        self._worst: list[tuple[float, str, Evidence]] = []
        self._sampled: list[UserBatch] = []
        self._sampled_scores: list[Scores] = []
        self._pairing: Pairing | None = None
        self._unmeasured: dict[str, None] = {}
        self._unlike: list[str | None] = []

    def add(self, batch: UserBatch) -> None:
        """Take the next batch."""
        measuring = self._comparison.measuring
        with self._stage("pair"):
            pairing = pair_users(batch, measuring.k)
        with self._stage("score"):
            metrics, unmeasured = scorable_metrics(measuring, pairing.batch)
            floor = measure_floor(batch, pairing, measuring.k, metrics)
            by_metric, bounds = add_floor(score_all(pairing.batch, metrics), floor, metrics, measuring.k)
        with self._stage("summarize"):
            rows = rows_of_segments(batch.panel, pairing.panel_rows)
            scores = Scores(users=batch.panel.users[pairing.panel_rows], by_metric=by_metric)
            self.metrics = tuple(dict.fromkeys((*self.metrics, *metrics)))
            self.listed.add(pairing)
            self._summaries.add(rows, by_metric, score_ranges(metrics, measuring.k) | bounds)
            self._coverage.append(pairing.coverage)
            self._scores.append(scores)
            self._unmeasured |= dict.fromkeys(unmeasured)
            self._unlike.append(pairing.unlike_ids)
            self._keep_worst(pairing, scores, metrics)
            for arm, pull in ((Arm.BASELINE, batch.baseline), (Arm.CANDIDATE, batch.candidate)):
                self.notes = {(arm, reason): note for reason, note in pull.notes.items()} | self.notes
            if measuring.keep_lists is not Keep.NONE:
                self._lists.append(self._kept(keep_lists(pairing, scores.users, rows)))
            # The pairs of a run that is one batch need not be made again.
            is_whole = self._share >= 1 and len(self._coverage) == 1 and batch.panel.users.is_monotonic_increasing
            self._pairing = pairing if is_whole else None
            sampled = is_sampled(batch.panel.users, self._share, self._comparison)
            self._sampled.append(take_users(batch, sampled))
            self._sampled_scores.append(_take_scores(scores, sampled[pairing.panel_rows]))

    def part(self, *, keeps_all: bool) -> RunPart:
        """All that was gathered, to be taken by another one; ``keeps_all`` scores, or those that the comparison keeps."""
        self._summaries.compact()
        scores, keep = self.scores, Keep.ALL if keeps_all else self._comparison.measuring.keep_scores
        sampled = join_users(self._sampled, self._segments)
        return RunPart(
            metrics=tuple(map(str, self.metrics)),
            listed=self.listed,
            notes=self.notes,
            summaries=self._summaries,
            coverage=self.coverage,
            scores=_take_scores(scores, kept_among(scores.users, keep, self._comparison)),
            lists=self.lists,
            worst=self._worst,
            # What is known of items and users stands with whoever asked.
            sampled=replace(sampled, weights=None, relevance=None),
            sampled_scores=join_scores(self._sampled_scores),
            unmeasured=tuple(self._unmeasured),
            unlike=self._unlike,
        )

    def merge(self, part: RunPart, weights: ItemWeights | None, relevance: RelevanceTable | None) -> None:
        """Take what another one gathered of other users; the part is used up."""
        self.metrics = tuple(dict.fromkeys((*self.metrics, *map(parse, part.metrics))))
        self.listed.merge(part.listed)
        self.notes = dict(part.notes) | self.notes
        self._summaries.merge(part.summaries)
        self._coverage = [sum_coverage([*self._coverage, part.coverage], self._segments)]
        self._scores.append(part.scores)
        self._lists += filter(None, [part.lists])
        self._rank_worst([*self._worst, *part.worst])
        self._sampled.append(replace(part.sampled, weights=weights, relevance=relevance))
        self._sampled_scores.append(part.sampled_scores)
        self._unmeasured |= dict.fromkeys(part.unmeasured)
        self._unlike += part.unlike

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what could not be measured, or not of everybody."""
        # Ids are spelled alike where any batch has an item in both arms.
        unlike = self._unlike[0] if all(self._unlike) else None
        return (*self._unmeasured, *filter(None, (unlike, self.listed.unweighted_note)))

    @property
    def coverage(self) -> Coverage:
        """What became of all users asked."""
        return sum_coverage(self._coverage, self._segments)

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Summaries by segment and metric."""
        return self._summaries.summaries()

    @property
    def scores(self) -> Scores:
        """Scores of all paired users, in the order of their keys."""
        found = join_scores(self._scores)
        if not found.users.is_monotonic_increasing:
            found = _take_scores(found, found.users.argsort())
        # Put in order once.
        self._scores = [found]
        return found

    @property
    def lists(self) -> KeptLists | None:
        """The lists of those paired users of whom the comparison keeps them."""
        if not self._lists:
            return None
        counts = [len(each.baseline) for each in self._lists]
        joined = KeptLists(
            baseline=join_tables([each.baseline for each in self._lists]),
            candidate=join_tables([each.candidate for each in self._lists]),
            segments=join_segments(counts, [each.segments for each in self._lists], self._segments),
        )
        return self._kept(joined)

    def _kept(self, lists: KeptLists) -> KeptLists:
        return take_kept(lists, kept_among(lists.panel.users, self._comparison.measuring.keep_lists, self._comparison))

    def sample(self) -> Sample:
        """The users that are looked at together; what was kept to make it is let go."""
        # In one order, however they came: what adds up figures of users depends on it in the last bits.
        batch = sort_users(join_users(self._sampled, self._segments))
        self._sampled = []
        pairing = self._pairing or pair_users(batch, self._comparison.measuring.k)
        users = batch.panel.users[pairing.panel_rows]
        scores = join_scores(self._sampled_scores)
        self._sampled_scores = []
        if not users.equals(scores.users):
            scores = _take_scores(scores, find_users(users, scores.users))
        return Sample(pairing=pairing, segments=rows_of_segments(batch.panel, pairing.panel_rows), scores=scores)

    @property
    def worst(self) -> tuple[Evidence, ...]:
        """Lists of the worst users of all, the worst first."""
        return tuple(evidence for _, _, evidence in self._worst)

    def evidence(self, sample: Sample) -> tuple[Evidence, ...]:
        """Lists of the worst users of all, and of ordinary ones of the sample."""
        worst, metric = self.worst, example_metric(self._comparison, self.metrics)
        median = self._summaries.median(str(metric))
        if metric is None or median is None:
            return worst
        values = sample.scores.by_metric[str(metric)].copy()
        # Nobody is shown twice.
        values[sample.scores.users.isin([each.user for each in worst])] = np.nan
        rows = ordinary_rows(values, self._comparison.measuring.evidence_users, median)
        ordinary = [
            show_user(sample.pairing, sample.scores, int(row), EvidenceKind.REPRESENTATIVE, position)
            for position, row in enumerate(rows)
        ]
        return (*worst, *ordinary)

    def _keep_worst(self, pairing: Pairing, scores: Scores, metrics: Sequence[Metric]) -> None:
        metric = example_metric(self._comparison, metrics)
        if metric is None:
            return
        count, is_alike = self._comparison.measuring.evidence_users, metric.higher_is_more_alike
        values = scores.by_metric[str(metric)]
        found = list(self._worst)
        for row in worst_rows(values, scores.users, count, higher_is_more_alike=is_alike).tolist():
            shown = show_user(pairing, scores, row, EvidenceKind.WORST, 0)
            found.append((float(values[row] if is_alike else -values[row]), shown.user, shown))
        self._rank_worst(found)

    def _rank_worst(self, found: Sequence[tuple[float, str, Evidence]]) -> None:
        ranked = sorted(found, key=lambda each: each[:2])[: self._comparison.measuring.evidence_users]
        self._worst = [(value, user, replace(shown, position=place)) for place, (value, user, shown) in enumerate(ranked)]


def _take_scores(scores: Scores, rows: Flags | Rows) -> Scores:
    """The scores of those of the users."""
    return Scores(users=scores.users[rows], by_metric={name: values[rows] for name, values in scores.by_metric.items()})


def join_scores(parts: Sequence[Scores]) -> Scores:
    """The scores of the users of all parts, in their order; NaN where a part lacks a metric."""
    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part.by_metric)

    def column(name: str) -> Floats:
        return np.concatenate([part.by_metric.get(name, np.full(len(part.users), np.nan)) for part in parts])

    return Scores(users=join_index([part.users for part in parts]), by_metric={name: column(name) for name in names})
