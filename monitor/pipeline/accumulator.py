"""Measures a run's users in batches, and adds up what was measured.

The order and number of the batches do not change the result.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import nsmallest

import numpy as np

from monitor.measures.metrics import Metric, parse
from monitor.measures.pairing import ListedItems, keep_lists, sum_coverage
from monitor.measures.pairing.id_mismatches import IdComparison
from monitor.measures.pairing.ids import decode, find_users
from monitor.measures.pairing.pairs import mix
from monitor.measures.sampling import hash_users, is_sampled, select_kept
from monitor.measures.summaries import (
    SegmentRows,
    SummaryAccumulator,
    ordinary_rows,
    rows_of_segments,
    worst_rows,
)
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
    RelevanceTable,
    UserBatch,
)
from monitor.model.rules import Comparison, Keep
from monitor.model.runs import Evidence, EvidenceKind, Findings, KeptLists, Scores
from monitor.model.statistics import parse_derived
from monitor.pipeline.run_scores import join_scores, take_rows, take_scores, without_failed
from monitor.pipeline.score import leading_metric, score_pairs, wanted_statistics
from monitor.pipeline.user_batches import (
    join_segments,
    join_tables,
    join_users,
    pair_users,
    sort_users,
    take_kept,
    take_users,
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


@dataclass(slots=True, kw_only=True)
class RunPart:
    """What was measured of some users of a run. `RunAccumulator` adds up the parts of all users.

    - ``metrics``: the names of the metrics that were measured.
    - ``failed``: the error of each metric that failed for some users.
    - ``unmeasured``: sentences about metrics that could not be measured.
    - ``notes``: by arm and reason, what happened first, and the first users without a list.
    - ``input_hash``: the hash of the users and all their lists, a sum over users.
    - ``worst``: the worst users, each with a value (a lower value is worse) and both lists.
    - ``sampled``: the users of the sample, without weights and relevance.
    - ``scores``: the scores that a measurement on another machine returns.
    """

    summaries: SummaryAccumulator
    metrics: dict[str, None] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unmeasured: dict[str, None] = field(default_factory=dict)
    listed: ListedItems = field(default_factory=ListedItems)
    ids: IdComparison = field(default_factory=IdComparison)
    coverage: list[Coverage] = field(default_factory=list)
    notes: dict[tuple[Arm, CoverageReason], tuple[str, list[str]]] = field(default_factory=dict)
    versions: dict[Arm, dict[str, int]] = field(default_factory=lambda: {arm: {} for arm in Arm})
    input_hash: int = 0
    lists: list[KeptLists] = field(default_factory=list)
    worst: list[tuple[float, Evidence]] = field(default_factory=list)
    sampled: list[tuple[UserBatch, Scores]] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)


class RunAccumulator:
    """Measures batches of a run's users, and adds up their parts."""

    def __init__(
        self,
        comparison: Comparison,
        asked: AskedUsers,
        stage: Callable[[str], AbstractContextManager[object]] = nullcontext,
        *,
        sampled_users: int = SAMPLED_USERS,
    ) -> None:
        self._comparison = comparison
        self._segments = asked.segments
        self._stage = stage
        self._share = sampled_users / max(1, asked.count)
        self._pairing: Pairing | None = None  # the pairing of the sample, if it is one batch
        wanted = wanted_statistics(comparison.judging.similarity_rules)
        self.sums = RunPart(summaries=SummaryAccumulator(self._segments, wanted))

    def add(self, batch: UserBatch) -> Scores:
        """Pair and score the next batch, and add it. Returns the scores of the paired users."""
        measuring = self._comparison.measuring
        sums = self.sums
        with self._stage("pair"):
            pairing = pair_users(batch, measuring.k, sums.ids)
        with self._stage("score"):
            scored = score_pairs(measuring, batch, pairing, sums.failed)
        panel = batch.panel
        with self._stage("summarize"):
            rows = rows_of_segments(panel, pairing.panel_rows)
            scores = Scores(users=panel.users[pairing.panel_rows], by_metric=scored.by_metric)
            sums.metrics |= dict.fromkeys(map(str, scored.metrics))
            sums.unmeasured |= dict.fromkeys(scored.left_out)
            sums.listed.add(pairing)
            sums.summaries.add(rows, scored.by_metric, scored.bounds)
            for arm, pull in ((Arm.BASELINE, batch.baseline), (Arm.CANDIDATE, batch.candidate)):
                count_versions(sums.versions[arm], pull.versions.items())
                for reason, text in pull.notes.items():
                    users = [user for user, why in pull.failures.items() if why is reason]
                    self._note((arm, reason), text, users)
            self._add_worst(self._worst_of(pairing, scores, scored.metrics))
            if measuring.keep_lists is not Keep.NONE:
                sums.lists.append(self._drawn(keep_lists(pairing, scores.users, rows)))
            hashes = hash_users(panel.users, self._comparison)
            sums.input_hash += int(mix(hashes + pairing.input_hashes).sum(dtype=np.uint64))
            is_in_sample = is_sampled(panel, self._share, hashes)
            # If one sorted batch is the whole sample, its pairing is reused.
            is_whole = not sums.coverage and is_in_sample.all()
            self._pairing = None
            if is_whole and panel.users.is_monotonic_increasing:
                self._pairing = pairing
            sums.coverage.append(pairing.coverage)
            sampled = take_users(replace(batch, weights=None, relevance=None), is_in_sample)
            sampled_rows = is_in_sample[pairing.panel_rows]
            sums.sampled.append((sampled, take_scores(scores, sampled_rows)))
        return scores

    def merge(self, part: RunPart) -> None:
        """Add what was measured of other users. Do not use the part again afterwards."""
        sums = self.sums
        sums.metrics |= part.metrics
        sums.failed |= part.failed
        sums.unmeasured |= part.unmeasured
        sums.listed.merge(part.listed)
        sums.ids.batches += part.ids.batches
        sums.summaries.merge(part.summaries)
        sums.coverage = [sum_coverage([*sums.coverage, *part.coverage], self._segments)]
        for key, (text, users) in part.notes.items():
            self._note(key, text, users)
        for arm, versions in part.versions.items():
            count_versions(sums.versions[arm], versions.items())
        sums.input_hash += part.input_hash
        sums.lists += part.lists
        self._add_worst(part.worst)
        sums.sampled += part.sampled

    def part(self, scores: Scores) -> RunPart:
        """Everything that was added, joined, with these scores. Add nothing afterwards."""
        sums = self.sums
        sums.summaries.compact()
        return replace(
            sums,
            coverage=[self.coverage],
            lists=[*filter(None, [self._join_lists()])],
            sampled=[self._join_sampled()],
            scores=[scores],
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that were measured and did not fail."""
        return tuple(parse(name) for name in self.sums.metrics if name not in self.sums.failed)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what could not be measured for all users."""
        sums = self.sums
        note = sums.listed.unweighted_note
        return (*sums.unmeasured, *sums.failed.values(), *filter(None, [note]))

    @property
    def notes(self) -> Mapping[tuple[Arm, CoverageReason], CoverageNote]:
        """What happened first, by arm and reason.

        If an arm could not be read at all, its note names no example users.
        """
        notes = {}
        for (arm, reason), (text, users) in self.sums.notes.items():
            examples: tuple[str, ...] = ()
            if reason is not CoverageReason.UNAVAILABLE:
                examples = tuple(user[:_LONGEST_USER] for user in users)
            notes[arm, reason] = CoverageNote(text=text, users=examples)
        return notes

    def _note(self, key: tuple[Arm, CoverageReason], text: str, users: Iterable[str]) -> None:
        first_text, earlier_users = self.sums.notes.get(key, (text, []))
        self.sums.notes[key] = first_text, nsmallest(_EXAMPLES, (*earlier_users, *users))

    @property
    def coverage(self) -> Coverage:
        """The coverage of all users that were asked."""
        return sum_coverage(self.sums.coverage, self._segments)

    def _join_lists(self) -> KeptLists | None:
        """The lists that the comparison keeps, of paired users. None if no batch has any."""
        parts = self.sums.lists
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

    def sample(
        self, weights: ItemWeights | None = None, relevance: RelevanceTable | None = None
    ) -> Sample:
        """The sampled users, with these weights and this relevance."""
        # The users are sorted, because the last bits of sums over users depend on the order.
        sampled, scores = self._join_sampled()
        batch = replace(sort_users(sampled), weights=weights, relevance=relevance)
        pairing = self._pairing or pair_users(batch, self._comparison.measuring.k)
        users = batch.panel.users[pairing.panel_rows]
        if not users.equals(scores.users):
            scores = take_rows(scores, find_users(users, scores.users))
        return Sample(
            pairing=pairing,
            segments=rows_of_segments(batch.panel, pairing.panel_rows),
            scores=scores,
        )

    def _join_sampled(self) -> tuple[UserBatch, Scores]:
        users, scores = zip(*self.sums.sampled, strict=True)
        return join_users(users, self._segments), join_scores(scores)

    def findings(self, slot: datetime, sample: Sample) -> Findings:
        """What was found in all users, without metrics that failed for some users."""
        sums = self.sums
        summaries = []
        for summary in sums.summaries.summaries():
            if parse_derived(summary.metric)[1] not in sums.failed:
                summaries.append(summary)
        evidence = []
        for shown in (*_numbered(shown for _, shown in sums.worst), *self._ordinary(sample)):
            evidence.append(replace(shown, scores=without_failed(shown.scores, sums.failed)))
        known_items = self._comparison.measuring.catalogue_size or 0
        return Findings(
            slot=slot,
            coverage=self.coverage,
            summaries=tuple(summaries),
            evidence=tuple(evidence),
            catalogue_size=max(known_items, sums.listed.count) or None,
            lists=self._join_lists(),
            input_hash=f"{sums.input_hash % 2**64:016x}",
            id_mismatches=sums.ids.mismatches,
        )

    def _ordinary(self, sample: Sample) -> tuple[Evidence, ...]:
        """Lists of users whose scores are nearest to the median. No user is shown twice."""
        metric = leading_metric(self._comparison, self.metrics)
        median = self.sums.summaries.median(str(metric))
        if metric is None or median is None:
            return ()
        values = sample.scores.by_metric[str(metric)].copy()
        worst = [shown.user for _, shown in self.sums.worst]
        values[sample.scores.users.isin(worst)] = np.nan
        rows = ordinary_rows(values, self._comparison.measuring.evidence_users, median)
        kind = EvidenceKind.REPRESENTATIVE
        return _numbered(
            _show_user(sample.pairing, sample.scores, row, kind) for row in rows.tolist()
        )

    def _worst_of(
        self, pairing: Pairing, scores: Scores, metrics: Iterable[Metric]
    ) -> list[tuple[float, Evidence]]:
        usable = [metric for metric in metrics if str(metric) not in self.sums.failed]
        metric = leading_metric(self._comparison, usable)
        if metric is None:
            return []
        values = scores.by_metric[str(metric)]
        if not metric.higher_is_more_alike:
            values = -values
        rows = worst_rows(values, scores.users, self._comparison.measuring.evidence_users)
        worst = []
        for row in rows.tolist():
            worst.append((float(values[row]), _show_user(pairing, scores, row, EvidenceKind.WORST)))
        return worst

    def _add_worst(self, worst: Iterable[tuple[float, Evidence]]) -> None:
        ranked = sorted((*self.sums.worst, *worst), key=lambda shown: (shown[0], shown[1].user))
        self.sums.worst = ranked[: self._comparison.measuring.evidence_users]


def _show_user(pairing: Pairing, scores: Scores, row: int, kind: EvidenceKind) -> Evidence:
    """Both lists of one user as item ids. ``row`` is the user's row in pairing and scores."""
    user_scores: dict[str, float | None] = {}
    for name, values in scores.by_metric.items():
        value = float(values[row])
        user_scores[name] = None if np.isnan(value) else value
    return Evidence(
        kind=kind,
        position=0,
        user=scores.users[row],
        baseline=decode(pairing.batch.baseline[row], pairing.vocabulary),
        candidate=decode(pairing.batch.candidate[row], pairing.vocabulary),
        scores=user_scores,
    )


def _numbered(users: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(replace(shown, position=position) for position, shown in enumerate(users))
