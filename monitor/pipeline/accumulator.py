"""Collects a run's measurement from batches of users.

The order and number of the batches do not change the result.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from heapq import nsmallest
from operator import itemgetter

import numpy as np

from monitor.immutable import immutable
from monitor.metrics import Metric, parse, score_all
from monitor.model.model_versions import count_versions
from monitor.model.rankings import (
    Arm,
    AskedUsers,
    Coverage,
    CoverageNote,
    CoverageReason,
    ItemWeights,
    Pairing,
    Pull,
    RelevanceTable,
    UserBatch,
)
from monitor.model.rules import Comparison, Keep
from monitor.model.run_reasons import IdMismatch
from monitor.model.runs import Evidence, EvidenceKind, KeptLists, Scores, Summary
from monitor.pairing import ListedItems, keep_lists, sum_coverage
from monitor.pairing.id_mismatches import IdComparison
from monitor.pairing.ids import find_users
from monitor.pairing.pairs import mix
from monitor.pipeline import score
from monitor.pipeline.user_batches import (
    join_segments,
    join_tables,
    join_users,
    pair_users,
    sort_users,
    take_kept,
    take_users,
)
from monitor.sampling import hash_users, is_sampled, select_kept
from monitor.summaries import (
    SegmentRows,
    SummaryAccumulator,
    ordinary_rows,
    rows_of_segments,
    worst_rows,
)

SAMPLED_USERS = 100_000
"""The sample has about this many users. A smaller run has all users in its sample.

The sample is used where many users are needed at once: for explanations, for arm metrics and for
selecting ordinary users.
"""
_EXAMPLES = 5
"""A note names at most this many users as examples."""
_LONGEST_USER = 40
"""A note shows at most this many characters of a user's id."""


@immutable
class Sample:
    """The sampled users: their pairs with one user per row, their rows by segment, their scores."""

    pairing: Pairing
    segments: SegmentRows
    scores: Scores


@immutable
class RunPart:
    """What one `RunAccumulator` collected.

    An entry of ``worst`` has the value that ranks the user, the user's id, and the user's lists.
    """

    metrics: tuple[str, ...]
    listed: ListedItems
    notes: Mapping[tuple[Arm, CoverageReason], tuple[str, list[str]]]
    versions: Mapping[Arm, Mapping[str, int]]
    input_hash: int
    summaries: SummaryAccumulator
    coverage: Coverage
    scores: Scores
    lists: KeptLists | None
    worst: list[tuple[float, str, Evidence]]
    sampled: tuple[UserBatch, Scores]
    unmeasured: tuple[str, ...]
    failed: Mapping[str, str]
    id_mismatches: list[tuple[IdMismatch, ...]]


class RunAccumulator:
    """Pairs, scores and adds up the batches of a run's users.

    ``gather`` is called with each batch's scores.
    """

    def __init__(
        self,
        comparison: Comparison,
        asked: AskedUsers,
        stage: Callable[[str], AbstractContextManager[object]] = nullcontext,
        *,
        sampled_users: int = SAMPLED_USERS,
        gather: Callable[[Scores], object] = lambda _: None,
    ) -> None:
        self.listed = ListedItems()
        self.versions: dict[Arm, dict[str, int]] = {arm: {} for arm in Arm}
        self.input_hash = 0  # hash of the users asked and all their lists, a sum over users
        # Metrics that failed for some users, with the error. Their scores are not reported.
        self.failed: dict[str, str] = {}
        self._measured: dict[Metric, None] = {}
        # For each arm and reason: what happened first, and the first users without a list.
        self._notes: dict[tuple[Arm, CoverageReason], tuple[str, list[str]]] = {}
        self._comparison = comparison
        self._stage = stage
        self._segments = asked.segments
        self._share = sampled_users / max(1, asked.count)
        self._summaries = SummaryAccumulator(
            self._segments, score.wanted_statistics(comparison.judging.similarity_rules)
        )
        self._coverage: list[Coverage] = []
        self._gather = gather
        self._lists: list[KeptLists] = []
        self._worst: list[tuple[float, str, Evidence]] = []
        self._sampled: list[tuple[UserBatch, Scores]] = []
        self._pairing: Pairing | None = None
        self._unmeasured: dict[str, None] = {}
        self._id_differences = IdComparison()

    def add(self, batch: UserBatch) -> None:
        """Pair, score and add the next batch."""
        measuring = self._comparison.measuring
        with self._stage("pair"):
            pairing = pair_users(batch, measuring.k, self._id_differences)
        with self._stage("score"):
            metrics, unmeasured = score.scorable_metrics(measuring, pairing.batch)
            floor = score.measure_floor(batch, pairing, measuring.k, metrics, self.failed)
            by_metric = score_all(pairing.batch, metrics, failed=self.failed)
            by_metric, bounds = score.add_floor(by_metric, floor, metrics, measuring.k)
        panel = batch.panel
        with self._stage("summarize"):
            rows = rows_of_segments(panel, pairing.panel_rows)
            scores = Scores(users=panel.users[pairing.panel_rows], by_metric=by_metric)
            self._measured |= dict.fromkeys(metrics)
            self.listed.add(pairing)
            self._summaries.add(rows, by_metric, score.score_ranges(metrics, measuring.k) | bounds)
            self._coverage.append(pairing.coverage)
            self._unmeasured |= dict.fromkeys(unmeasured)
            usable = [metric for metric in metrics if str(metric) not in self.failed]
            self._keep_worst(pairing, scores, score.leading_metric(self._comparison, usable))
            self._add_notes(Arm.BASELINE, batch.baseline)
            self._add_notes(Arm.CANDIDATE, batch.candidate)
            if measuring.keep_lists is not Keep.NONE:
                self._lists.append(self._drawn(keep_lists(pairing, scores.users, rows)))
            hashes = hash_users(panel.users, self._comparison)
            self.input_hash += int(mix(hashes + pairing.input_hashes).sum(dtype=np.uint64))
            is_in_sample = is_sampled(panel, self._share, hashes)
            users = panel.users
            sampled_rows = is_in_sample[pairing.panel_rows]
            # If one sorted batch is the whole sample, its pairing is reused.
            is_only = len(self._coverage) == 1 and is_in_sample.all()
            self._pairing = pairing if is_only and users.is_monotonic_increasing else None
            self._sampled.append(
                (take_users(batch, is_in_sample), score.take_scores(scores, sampled_rows))
            )
            self._gather(scores)

    def _add_notes(self, arm: Arm, pull: Pull) -> None:
        for reason, text in pull.notes.items():
            users = [user for user, why in pull.failures.items() if why is reason]
            self._note((arm, reason), text, users)
        count_versions(self.versions[arm], pull.versions.items())

    def part(self, scores: Scores) -> RunPart:
        """Return everything that was collected, with these scores. Add nothing afterwards."""
        self._summaries.compact()
        users, sampled_scores = self._join_sampled()
        return RunPart(
            metrics=tuple(map(str, self._measured)),
            listed=self.listed,
            notes=self._notes,
            versions=self.versions,
            input_hash=self.input_hash,
            summaries=self._summaries,
            coverage=self.coverage,
            scores=scores,
            lists=self.lists,
            worst=self._worst,
            # The process that merges the parts has weights and relevance.
            sampled=(replace(users, weights=None, relevance=None), sampled_scores),
            unmeasured=tuple(self._unmeasured),
            failed=self.failed,
            id_mismatches=self._id_differences.batches,
        )

    def merge(
        self,
        part: RunPart,
        weights: ItemWeights | None,
        relevance: RelevanceTable | None,
    ) -> None:
        """Add what another accumulator collected from other users.

        Do not use the part again afterwards.
        """
        self._measured |= dict.fromkeys(map(parse, part.metrics))
        self.failed |= part.failed
        self.listed.merge(part.listed)
        for key, (text, failed) in part.notes.items():
            self._note(key, text, failed)
        for arm, versions in part.versions.items():
            count_versions(self.versions[arm], versions.items())
        self.input_hash += part.input_hash
        self._summaries.merge(part.summaries)
        self._coverage = [sum_coverage([*self._coverage, part.coverage], self._segments)]
        self._lists += filter(None, [part.lists])
        self._rank_worst([*self._worst, *part.worst])
        users, scores = part.sampled
        self._sampled.append((replace(users, weights=weights, relevance=relevance), scores))
        self._unmeasured |= dict.fromkeys(part.unmeasured)
        self._id_differences.batches += part.id_mismatches
        self._gather(part.scores)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that were measured and did not fail."""
        return tuple(metric for metric in self._measured if str(metric) not in self.failed)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what could not be measured for all users."""
        return (
            *self._unmeasured,
            *self.failed.values(),
            *filter(None, [self.listed.unweighted_note]),
        )

    @property
    def id_mismatches(self) -> tuple[IdMismatch, ...]:
        """Differences between the arms in how items are spelled."""
        return self._id_differences.mismatches

    @property
    def notes(self) -> Mapping[tuple[Arm, CoverageReason], CoverageNote]:
        """What happened first, by arm and reason.

        If an arm could not be read at all, its note names no example users.
        """
        notes = {}
        for (arm, reason), (text, users) in self._notes.items():
            examples: tuple[str, ...] = ()
            if reason is not CoverageReason.UNAVAILABLE:
                examples = tuple(user[:_LONGEST_USER] for user in users)
            notes[arm, reason] = CoverageNote(text=text, users=examples)
        return notes

    def _note(self, key: tuple[Arm, CoverageReason], text: str, users: Sequence[str]) -> None:
        first_text, earlier_users = self._notes.get(key, (text, []))
        self._notes[key] = first_text, nsmallest(_EXAMPLES, (*earlier_users, *users))

    @property
    def coverage(self) -> Coverage:
        """The coverage of all users that were asked."""
        return sum_coverage(self._coverage, self._segments)

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Summaries by segment and metric."""
        return self._summaries.summaries()

    @property
    def lists(self) -> KeptLists | None:
        """The lists that the comparison keeps, of paired users. None if no batch has any."""
        parts = self._lists
        if not parts:
            return None
        counts = [len(part.baseline) for part in parts]
        segments = [part.segments for part in parts]
        joined = KeptLists(
            baseline=join_tables([part.baseline for part in parts]),
            candidate=join_tables([part.candidate for part in parts]),
            segments=join_segments(counts, segments, self._segments),
        )
        # Each batch was drawn from. A draw of draws is a draw of all.
        return self._drawn(joined)

    def _drawn(self, lists: KeptLists) -> KeptLists:
        keep = self._comparison.measuring.keep_lists
        return take_kept(lists, select_kept(lists.panel.users, keep, self._comparison))

    def sample(self) -> Sample:
        """Return the sampled users. This frees their batches, so call it only once."""
        # The users are sorted, because the last bits of sums over users depend on the order.
        sampled, scores = self._join_sampled()
        batch = sort_users(sampled)
        pairing = self._pairing or pair_users(batch, self._comparison.measuring.k)
        users = batch.panel.users[pairing.panel_rows]
        if not users.equals(scores.users):
            rows = find_users(users, scores.users)
            scores = Scores(
                users=users,
                by_metric={name: values[rows] for name, values in scores.by_metric.items()},
            )
        return Sample(
            pairing=pairing,
            segments=rows_of_segments(batch.panel, pairing.panel_rows),
            scores=scores,
        )

    def _join_sampled(self) -> tuple[UserBatch, Scores]:
        users = join_users([users for users, _ in self._sampled], self._segments)
        scores = score.join_scores([scores for _, scores in self._sampled])
        self._sampled = []
        return users, scores

    @property
    def worst(self) -> tuple[Evidence, ...]:
        """Lists of the worst users, the worst first."""
        return tuple(evidence for _, _, evidence in self._worst)

    def evidence(self, sample: Sample) -> tuple[Evidence, ...]:
        """Lists of the worst users among all users, and of ordinary users from the sample."""
        worst = self.worst
        metric = score.leading_metric(self._comparison, self.metrics)
        median = self._summaries.median(str(metric))
        if metric is None or median is None:
            return worst
        values = sample.scores.by_metric[str(metric)].copy()
        # No user is shown twice.
        values[sample.scores.users.isin([shown.user for shown in worst])] = np.nan
        rows = ordinary_rows(values, self._comparison.measuring.evidence_users, median)
        ordinary = []
        for position, row in enumerate(rows.tolist()):
            shown = score.show_user(
                sample.pairing,
                sample.scores,
                row,
                EvidenceKind.REPRESENTATIVE,
                position,
            )
            ordinary.append(shown)
        return (*worst, *ordinary)

    def _keep_worst(self, pairing: Pairing, scores: Scores, metric: Metric | None) -> None:
        if metric is None:
            return
        count = self._comparison.measuring.evidence_users
        is_alike = metric.higher_is_more_alike
        values = scores.by_metric[str(metric)]
        sign = 1.0 if is_alike else -1.0
        candidates = list(self._worst)
        for row in worst_rows(values, scores.users, count, higher_is_more_alike=is_alike).tolist():
            shown = score.show_user(pairing, scores, row, EvidenceKind.WORST, 0)
            candidates.append((sign * float(values[row]), shown.user, shown))
        self._rank_worst(candidates)

    def _rank_worst(self, candidates: Sequence[tuple[float, str, Evidence]]) -> None:
        ranked = sorted(candidates, key=itemgetter(0, 1))
        most = self._comparison.measuring.evidence_users
        self._worst = []
        for place, (value, user, shown) in enumerate(ranked[:most]):
            self._worst.append((value, user, replace(shown, position=place)))
