"""Rankings in columns: answers of sources, pairs of lists, panels of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from monitor.immutable import immutable
from monitor.model.unreadable import Unreadable

if TYPE_CHECKING:
    import pandas as pd

    from monitor.model.arrays import Codes, Floats, Hashes, Ids, Offsets, Rows

# Name of the segment of all users, except users added for a segment's minimum
ALL = "all"

# Metrics multiply up to four weights within these bounds, and add up the products.
LEAST_WEIGHT = 1e-50
MOST_WEIGHT = 1e50


class Arm(StrEnum):
    """A side of a comparison. Baseline comes first in every signature."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"

    @property
    def other(self) -> Arm:
        """The other side."""
        return Arm.CANDIDATE if self is Arm.BASELINE else Arm.BASELINE


class CoverageReason(StrEnum):
    """Why a user's list is absent or imperfect. A closed set: it becomes a metric label."""

    MISSING = "missing"
    EMPTY = "empty"
    SHORT = "short"  # still compared
    DUPLICATED = "duplicated"  # still compared
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    RATE_LIMITED = "rate_limited"
    HTTP_ERROR = "http_error"
    SERVER_ERROR = "server_error"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    WRONG_USER = "wrong_user"
    DUPLICATE_USER = "duplicate_user"
    UNAVAILABLE = "unavailable"
    # No fault of the arm: rankwatch had no time or no request left for the user
    TOO_SLOW = "too_slow"


@immutable
class Traces:
    """Facts on the answers that brought n lists: float64 (n,), NaN where they are missing."""

    came_s: Floats  # on the monotonic clock
    age_s: Floats  # of those that came from a cache, 0 where that does not say it
    ids: Floats  # equal where the answers' ids are
    sign: str = ""  # a header by which one of them came from a cache


@immutable
class RankingTable:
    """Lists of n users from one arm as received: maybe longer than k, empty, with duplicates."""

    users: pd.Index  # n unique ids, from sources pandas ``str``
    # N + 1, ascending int64 from 0: user i has items[offsets[i]:offsets[i + 1]], best first
    offsets: Offsets
    items: Ids  # int32, int64 or pandas ``str`` from sources
    # The model's own, one an item, NaN for none; neighbours with equal scores are tied
    scores: Floats | None = None
    traces: Traces | None = None  # of the answers, if the source has them

    def __len__(self) -> int:
        return len(self.users)


@immutable
class Pull:
    """One arm's answer: lists, and failed users with the reason. Users in neither are missing."""

    rankings: RankingTable
    failures: Mapping[str, CoverageReason]
    # What happened, to whom for example, without secrets
    notes: Mapping[CoverageReason, str] = field(default_factory=dict)
    # How many users each version of the model answered, if it is reported
    versions: Mapping[str, int] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()

    @classmethod
    def failed(
        cls,
        users: pd.Index[str],
        reason: CoverageReason = CoverageReason.UNAVAILABLE,
        note: str | None = None,
    ) -> Pull:
        """The answer of an arm that failed for all users, for one reason."""
        import numpy as np  # noqa: PLC0415 - commands that read the database need none

        table = RankingTable(
            users=users[:0],
            offsets=np.zeros(1, dtype=np.int64),
            items=np.empty(0, dtype=np.int64),
        )
        return cls(
            rankings=table,
            failures=dict.fromkeys(users, reason),
            notes={} if note is None else {reason: note},
        )


@immutable
class UserTable:
    """Users that may be asked: n unique strings, and n values (or null) per segment dimension."""

    users: pd.Index[str]
    segments: Mapping[str, pd.Categorical[Any]]
    unreadable: tuple[Unreadable, ...] = ()

    def __len__(self) -> int:
        return len(self.users)


@immutable
class Panel:
    """Users of one run, sorted, and the positions of each segment (``all``, ``country=UK``)."""

    users: pd.Index[str]
    segments: Mapping[str, Rows]
    unreadable: tuple[Unreadable, ...] = ()  # of the table of users

    def __len__(self) -> int:
        return len(self.users)


@immutable
class ItemWeights:
    """Weights of n unique items, such as popularity, from `LEAST_WEIGHT` to `MOST_WEIGHT`."""

    items: Ids  # as in RankingTable
    weights: Floats


@immutable
class RelevanceTable:
    """Relevant items of n users, each item once, in no order. Columns as in RankingTable."""

    users: pd.Index
    offsets: Offsets
    items: Ids
    grades: Floats  # finite, at least 0, one an item; an item that is not listed has grade 0
    unreadable: tuple[Unreadable, ...] = ()

    def __len__(self) -> int:
        return len(self.users)


@immutable
class AskedUsers:
    """The number of users in segment ``all``, and the names of the segments, ``all`` first."""

    count: int
    segments: tuple[str, ...]


@immutable
class UserBatch:
    """Users of a run with their segments and the answers of both arms.

    None without a source, or if it failed.
    """

    panel: Panel
    baseline: Pull
    candidate: Pull
    again: Pull | None = None  # the baseline's second lists
    weights: ItemWeights | None = None
    relevance: RelevanceTable | None = None


@immutable
class ByArm:
    """Numbers for the places of both arms' lists: two float64 arrays, NaN after a list's end."""

    baseline: Floats
    candidate: Floats

    def of(self, arm: str) -> Floats:
        """The numbers of one arm."""
        return self.baseline if arm == Arm.BASELINE else self.candidate

    def map(self, change: Callable[[Floats], Floats]) -> ByArm:
        """Both arrays, changed by the same function."""
        return ByArm(baseline=change(self.baseline), candidate=change(self.candidate))


@immutable
class Labels:
    """The relevance of the items of n pairs, in the shape of the lists."""

    grades: ByArm  # of the item at each place, at least 0, and 0 where a list has ended
    # Each user's highest grades, descending, as many as places, 0 behind them, listed items or not
    ideal: Floats
    # Int32 (n,), items graded above 0; metrics of a user with 0 are undefined
    relevant: Codes


@immutable
class PairBatch:
    """Both arms' rankings of n users: int32 item codes (n, k), padded with -1, and lengths (n,).

    Codes are any integers >= 0, shared by both arms and distinct within a row. Items with equal
    scores are in the order of their ids in both arms, so that their order is no difference.
    """

    baseline: Codes
    candidate: Codes
    baseline_lengths: Codes
    candidate_lengths: Codes
    scores: ByArm | None = None  # the models' own, (n, k) where known,
    weights: ByArm | None = None  # the items', likewise,
    labels: Labels | None = None  # the users', likewise

    def __len__(self) -> int:
        return len(self.baseline_lengths)

    def of(self, arm: Arm) -> tuple[Codes, Codes]:
        """One arm's lists, codes (n, k), and their lengths (n,)."""
        if arm is Arm.BASELINE:
            return self.baseline, self.baseline_lengths
        return self.candidate, self.candidate_lengths

    def take(self, rows: slice | Rows) -> PairBatch:
        """The batch of these rows, in this order. A slice copies nothing."""

        def cut(places: Floats) -> Floats:
            return places[rows]

        labels = self.labels
        return PairBatch(
            baseline=self.baseline[rows],
            candidate=self.candidate[rows],
            baseline_lengths=self.baseline_lengths[rows],
            candidate_lengths=self.candidate_lengths[rows],
            scores=self.scores and self.scores.map(cut),
            weights=self.weights and self.weights.map(cut),
            labels=labels
            and Labels(
                grades=labels.grades.map(cut),
                ideal=labels.ideal[rows],
                relevant=labels.relevant[rows],
            ),
        )


@immutable
class CoverageNote:
    """What happened to users of one arm and reason, and the first of these users."""

    text: str
    users: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.users:
            return self.text
        return f"{self.text}; for example {', '.join(self.users)}"


@immutable
class CoverageRow:
    """One segment's coverage: users asked, users paired, and users by arm and reason, without 0."""

    segment: str
    asked: int
    paired: int
    users_by_reason: Mapping[tuple[Arm, CoverageReason], int]


@immutable
class Coverage:
    """How much of the panel could be compared, one row a segment, ``all`` first."""

    rows: tuple[CoverageRow, ...]

    @property
    def all(self) -> CoverageRow:
        """The row of the whole panel."""
        return self.rows[0]


@immutable
class Pairing:
    """Compared users: the batch, panel position by row, item id by code, and the coverage."""

    batch: PairBatch
    panel_rows: Rows
    vocabulary: pd.Index | None  # None if the code is the item's id
    coverage: Coverage
    # Of both lists of each user of the panel, who has none included
    input_hashes: Hashes
