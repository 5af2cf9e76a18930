"""A run's measurement, gathered from batches of users: neither their order nor their number changes what is found."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from heapq import nsmallest

import numpy as np

from monitor.metrics import Metric, parse, score_all
from monitor.model.comparison import Comparison, Keep
from monitor.model.id_mismatches import IdMismatch
from monitor.model.model_versions import count_versions
from monitor.model.rankings import (
    Arm,
    AskedUsers,
    Coverage,
    CoverageReason,
    ItemWeights,
    Pairing,
    RelevanceTable,
    UserBatch,
)
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
from monitor.sampling import hash_users, is_sampled, kept_among
from monitor.summaries import (
    SegmentRows,
    SummaryAccumulator,
    ordinary_rows,
    rows_of_segments,
    worst_rows,
)

SAMPLED_USERS = 100_000
"""About how many users are looked at together where one user's figures do not add up with another's: to explain a run, to
measure what an arm lists to all of them, and to choose ordinary users. Where no more are asked it is everybody."""
EXAMPLES = "; for example "
_EXAMPLES, _LONGEST_USER = 5, 40
"""So many users whom something happened to are named, so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The users that are looked at together: their pairs, one a row, rows by segment, and what they scored."""

    pairing: Pairing
    segments: SegmentRows
    scores: Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """What `RunAccumulator` gathered of some users: metrics by name, ``worst`` with what they are ranked by."""

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
    """Pairs, scores and adds up one batch of a run's users after the other.

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
        self.input_hash = 0  # of who was asked and all lists, a sum over users
        self.failed: dict[
            str, str
        ] = {}  # by name of a metric that failed for some users, why: nothing is to be told of it
        self._measured: dict[Metric, None] = {}
        # Of a reason what happened first, and the first users whom it kept from having a list.
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
        self._compares = IdComparison()

    def add(self, batch: UserBatch) -> None:
        """Take the next batch."""
        measuring = self._comparison.measuring
        with self._stage("pair"):
            pairing = pair_users(batch, measuring.k, self._compares)
        with self._stage("score"):
            metrics, unmeasured = score.scorable_metrics(measuring, pairing.batch)
            floor = score.measure_floor(batch, pairing, measuring.k, metrics, self.failed)
            own = score_all(pairing.batch, metrics, failed=self.failed)
            by_metric, bounds = score.add_floor(own, floor, metrics, measuring.k)
        with self._stage("summarize"):
            rows = rows_of_segments(batch.panel, pairing.panel_rows)
            scores = Scores(users=batch.panel.users[pairing.panel_rows], by_metric=by_metric)
            self._measured |= dict.fromkeys(metrics)
            self.listed.add(pairing)
            self._summaries.add(rows, by_metric, score.score_ranges(metrics, measuring.k) | bounds)
            self._coverage.append(pairing.coverage)
            self._unmeasured |= dict.fromkeys(unmeasured)
            self._keep_worst(
                pairing, scores, [metric for metric in metrics if str(metric) not in self.failed]
            )
            for arm, pull in ((Arm.BASELINE, batch.baseline), (Arm.CANDIDATE, batch.candidate)):
                for reason, note in pull.notes.items():
                    self._note(
                        (arm, reason),
                        note,
                        [user for user, why in pull.failures.items() if why is reason],
                    )
                count_versions(self.versions[arm], pull.versions.items())
            if measuring.keep_lists is not Keep.NONE:
                self._lists.append(self._kept(keep_lists(pairing, scores.users, rows)))
            # The pairs of a run that is one batch need not be made again.
            hashes = hash_users(batch.panel.users, self._comparison)
            self.input_hash += int(mix(hashes + pairing.input_hashes).sum(dtype=np.uint64))
            is_looked_at = is_sampled(batch.panel, self._share, hashes)
            is_whole = (
                is_looked_at.all()
                and len(self._coverage) == 1
                and batch.panel.users.is_monotonic_increasing
            )
            self._pairing = pairing if is_whole else None
            self._sampled.append(
                (
                    take_users(batch, is_looked_at),
                    score.take_scores(scores, is_looked_at[pairing.panel_rows]),
                )
            )
            self._gather(scores)

    def part(self, scores: Scores) -> RunPart:
        """All that was gathered, with these scores of what was gathered elsewhere.

        Nothing may be added from then on.
        """
        self._summaries.compact()
        sampled, of_sampled = self._join_sampled()
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
            # What is known of items and users stands with whoever asked.
            sampled=(replace(sampled, weights=None, relevance=None), of_sampled),
            unmeasured=tuple(self._unmeasured),
            failed=self.failed,
            id_mismatches=self._compares.batches,
        )

    def merge(
        self, part: RunPart, weights: ItemWeights | None, relevance: RelevanceTable | None
    ) -> None:
        """Take what another one gathered of other users; the part is used up."""
        self._measured |= dict.fromkeys(map(parse, part.metrics))
        self.failed |= part.failed
        self.listed.merge(part.listed)
        for key, (note, failed) in part.notes.items():
            self._note(key, note, failed)
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
        self._compares.batches += part.id_mismatches
        self._gather(part.scores)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those that were measured and did not fail."""
        return tuple(metric for metric in self._measured if str(metric) not in self.failed)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what could not be measured, or not of everybody."""
        return (
            *self._unmeasured,
            *self.failed.values(),
            *filter(None, [self.listed.unweighted_note]),
        )

    @property
    def id_mismatches(self) -> tuple[IdMismatch, ...]:
        """What is odd about the items of both arms."""
        return self._compares.mismatches

    @property
    def notes(self) -> Mapping[tuple[Arm, CoverageReason], str]:
        """What happened first, by arm and reason, and behind `EXAMPLES` to whom, unless an arm could not be read."""
        told = {}
        for key, (note, users) in self._notes.items():
            is_of_some = users and key[1] is not CoverageReason.UNAVAILABLE
            told[key] = (
                f"{note}{EXAMPLES}{', '.join(user[:_LONGEST_USER] for user in users)}"
                if is_of_some
                else note
            )
        return told

    def _note(self, key: tuple[Arm, CoverageReason], note: str, users: Sequence[str]) -> None:
        first, known = self._notes.get(key, (note, []))
        self._notes[key] = first, nsmallest(_EXAMPLES, (*known, *users))

    @property
    def coverage(self) -> Coverage:
        """What became of all users asked."""
        return sum_coverage(self._coverage, self._segments)

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Summaries by segment and metric."""
        return self._summaries.summaries()

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
        return take_kept(
            lists,
            kept_among(lists.panel.users, self._comparison.measuring.keep_lists, self._comparison),
        )

    def sample(self) -> Sample:
        """The users that are looked at together; what was kept to make it is let go."""
        # In one order, however they came: what adds up figures of users depends on it in the last
        # bits.
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
        parts, self._sampled = self._sampled, []
        return join_users([users for users, _ in parts], self._segments), score.join_scores(
            [scores for _, scores in parts]
        )

    @property
    def worst(self) -> tuple[Evidence, ...]:
        """Lists of the worst users of all, the worst first."""
        return tuple(evidence for _, _, evidence in self._worst)

    def evidence(self, sample: Sample) -> tuple[Evidence, ...]:
        """Lists of the worst users of all, and of ordinary ones of the sample."""
        worst, metric = self.worst, score.leading_metric(self._comparison, self.metrics)
        median = self._summaries.median(str(metric))
        if metric is None or median is None:
            return worst
        values = sample.scores.by_metric[str(metric)].copy()
        # Nobody is shown twice.
        values[sample.scores.users.isin([each.user for each in worst])] = np.nan
        rows = ordinary_rows(values, self._comparison.measuring.evidence_users, median)
        ordinary = [
            score.show_user(
                sample.pairing, sample.scores, int(row), EvidenceKind.REPRESENTATIVE, position
            )
            for position, row in enumerate(rows)
        ]
        return (*worst, *ordinary)

    def _keep_worst(self, pairing: Pairing, scores: Scores, metrics: Sequence[Metric]) -> None:
        metric = score.leading_metric(self._comparison, metrics)
        if metric is None:
            return
        count, is_alike = self._comparison.measuring.evidence_users, metric.higher_is_more_alike
        values = scores.by_metric[str(metric)]
        found = list(self._worst)
        for row in worst_rows(values, scores.users, count, higher_is_more_alike=is_alike).tolist():
            shown = score.show_user(pairing, scores, row, EvidenceKind.WORST, 0)
            found.append((float(values[row] if is_alike else -values[row]), shown.user, shown))
        self._rank_worst(found)

    def _rank_worst(self, found: Sequence[tuple[float, str, Evidence]]) -> None:
        ranked = sorted(found, key=lambda each: each[:2])[
            : self._comparison.measuring.evidence_users
        ]
        self._worst = [
            (value, user, replace(shown, position=place))
            for place, (value, user, shown) in enumerate(ranked)
        ]
