"""Rankings in columns: answers of sources, pairs of lists, panels of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from monitor.model.immutable import immutable
from monitor.model.unreadable import Unreadable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from monitor.model.arrays import Codes, Flags, Floats, Hashes, Ids, Offsets, Rows

# Name of the segment of all users. Users who were added to reach a segment's minimum are not in it.
ALL = "all"

# Metrics multiply up to four weights and add up the products. These bounds prevent overflow.
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


def ranks_by_item(
    baseline: Sequence[str], candidate: Sequence[str]
) -> dict[str, tuple[int | None, int | None]]:
    """Return the ranks of each item in both lists, from 1. The rank is None without the item.

    The candidate's items come first, in their order. Items that only the baseline has follow.
    """
    baseline_ranks = {item: rank for rank, item in enumerate(baseline, start=1)}
    candidate_ranks = {item: rank for rank, item in enumerate(candidate, start=1)}
    return {
        item: (baseline_ranks.get(item), candidate_ranks.get(item))
        for item in (*candidate, *baseline)
    }


class CoverageReason(StrEnum):
    """Why a user's list is absent or imperfect. A metric has these values as a label."""

    MISSING = "missing"
    EMPTY = "empty"
    SHORT = "short"  # the user is still compared
    DUPLICATED = "duplicated"  # the user is still compared
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
    # This is not the arm's fault, because rankwatch had no time or no request left for the user.
    TOO_SLOW = "too_slow"


COMPARED_REASONS = frozenset({CoverageReason.SHORT, CoverageReason.DUPLICATED})
"""Lists with these faults are compared nevertheless."""


@immutable
class Traces:
    """Facts about the answers with n lists. Arrays are float64 (n,), with NaN for missing facts."""

    came_s: Floats  # when the answer came, on the monotonic clock
    age_s: Floats  # age of an answer from a cache, 0 if the cache does not say its age
    ids: Floats  # equal numbers for answers with equal ids
    cache_header: str = ""  # a header which shows that an answer came from a cache


@immutable
class RankingTable:
    """Lists of n users as received from one arm.

    A list may be empty, longer than k, or contain duplicates.
    """

    users: pd.Index  # n unique ids; sources give pandas ``str``
    # N + 1, ascending int64 from 0: user i has items[offsets[i]:offsets[i + 1]], best first
    offsets: Offsets
    items: Ids  # sources give int32, int64 or pandas ``str``
    # The model's score of each item, NaN for none. Neighbours with equal scores are tied
    scores: Floats | None = None
    traces: Traces | None = None  # facts on the answers, if the source has them

    def __len__(self) -> int:
        return len(self.users)


@immutable
class Pull:
    """One arm's answer: lists, and the reason for each user that failed.

    All users without a list and without a reason are missing.
    """

    rankings: RankingTable
    failures: Mapping[str, CoverageReason]
    # A text for each reason. It says what happened, and names a user as an example. It contains no
    # secrets.
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
        """Return the answer of an arm that failed for all users for the same reason."""
        import numpy as np  # noqa: PLC0415 - commands that read the database do not need it

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
    """Users that may be asked: n unique strings, and n values (or null) for each dimension."""

    users: pd.Index[str]
    segments: Mapping[str, pd.Categorical[Any]]
    unreadable: tuple[Unreadable, ...] = ()

    def __len__(self) -> int:
        return len(self.users)


@immutable
class UserSums:
    """Sums of outcomes, such as clicks. ``sums`` has one row for each user with a row in the log."""

    sums: pd.DataFrame
    unreadable: tuple[Unreadable, ...]


@immutable
class Panel:
    """The sorted users of one run, and the positions of each segment (``all``, ``country=UK``)."""

    users: pd.Index[str]
    segments: Mapping[str, Rows]
    unreadable: tuple[Unreadable, ...] = ()  # values in the table of users

    def __len__(self) -> int:
        return len(self.users)


@immutable
class ItemWeights:
    """Weights of n unique items, such as popularity, from `LEAST_WEIGHT` to `MOST_WEIGHT`."""

    items: Ids  # as in RankingTable
    weights: Floats


@immutable
class RelevanceTable:
    """Relevant items of n users, each once, in any order. The columns are as in RankingTable."""

    users: pd.Index
    offsets: Offsets
    items: Ids
    # One grade for each item, finite and at least 0. An item that is not in the table has grade 0
    grades: Floats
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

    A field is None if it has no source, or if the source failed. ``arm`` is the arm that serves
    these users, if each user is served by one arm only.
    """

    panel: Panel
    baseline: Pull
    candidate: Pull
    second_baseline: Pull | None  # the baseline's second lists
    weights: ItemWeights | None = None
    relevance: RelevanceTable | None = None
    arm: Arm | None = None


@immutable
class ByArm:
    """Numbers for each place of both arms' lists: two float64 arrays, NaN after a list's end."""

    baseline: Floats
    candidate: Floats

    def of(self, arm: str) -> Floats:
        """Return the numbers of one arm."""
        return self.baseline if arm == Arm.BASELINE else self.candidate

    def map(self, change: Callable[[Floats], Floats]) -> ByArm:
        """Return both arrays, changed by the same function."""
        return ByArm(baseline=change(self.baseline), candidate=change(self.candidate))


@immutable
class Labels:
    """The relevance of the items of n pairs of lists."""

    grades: ByArm  # grade of the item at each place: at least 0, and 0 after a list's end
    # Each user's k highest grades, descending, padded with 0. Includes items in neither list
    ideal: Floats
    # Int32 (n,): number of items graded above 0. If it is 0, metrics of the user are undefined.
    relevant: Codes


@immutable
class PairBatch:
    """Both arms' rankings of n users: int32 item codes (n, k), padded with -1, and lengths (n,).

    Codes are any integers >= 0. Both arms use the same codes, and a row has no code twice. Both
    arms order items with equal scores by id, so that their order makes no difference.
    """

    baseline: Codes
    candidate: Codes
    baseline_lengths: Codes
    candidate_lengths: Codes
    scores: ByArm | None = None  # the models' scores (n, k), if known
    weights: ByArm | None = None  # the items' weights (n, k), if known
    labels: Labels | None = None  # the relevance of the items, if known
    # Blocks of rows and their alignments, as soon as `blocks` has aligned them
    alignments: list[Any] = field(default_factory=list, init=False, compare=False)

    def __len__(self) -> int:
        return len(self.baseline_lengths)

    def of(self, arm: Arm) -> tuple[Codes, Codes]:
        """Return one arm's lists, codes (n, k), and their lengths (n,)."""
        if arm is Arm.BASELINE:
            return self.baseline, self.baseline_lengths
        return self.candidate, self.candidate_lengths

    def take(self, rows: slice | Rows) -> PairBatch:
        """Return the batch of these rows, in this order. A slice copies nothing."""

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
    """What happened to the users of one arm for one reason, and examples of these users."""

    text: str
    users: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.users:
            return self.text
        return f"{self.text}; for example {', '.join(self.users)}"


Notes: TypeAlias = Mapping[tuple[Arm, CoverageReason], CoverageNote]
"""Notes of the sources on users without a list, by arm and reason."""


@immutable
class CoverageRow:
    """One segment's coverage: users asked, users paired, and users by arm and reason.

    Reasons without users are left out.
    """

    segment: str
    asked: int
    paired: int
    users_by_reason: Mapping[tuple[Arm, CoverageReason], int]
    # The asked users of each arm, if each user belongs to one arm. Else None
    asked_by_arm: Mapping[Arm, int] | None = None

    def asked_of(self, arm: Arm | None) -> int:
        """Return the number of users that were asked of this arm. None means of any arm."""
        if arm is None or self.asked_by_arm is None:
            return self.asked
        return self.asked_by_arm[arm]

    def count_lost(self, arm: Arm) -> int:
        """Return the number of users without a list of this arm that can be compared."""
        lost = 0
        for (arm_of_reason, reason), users in self.users_by_reason.items():
            if arm_of_reason is arm and reason not in COMPARED_REASONS:
                lost += users
        return lost

    @property
    def comparable(self) -> int:
        """The number of users that would be paired in a perfect run.

        If each user belongs to one arm, users without a list of this arm do not count. So only
        users without a pre-test list can be missing.
        """
        if self.asked_by_arm is None:
            return self.asked
        return self.asked - sum(map(self.count_lost, Arm))


@immutable
class Coverage:
    """How much of the panel could be compared. One row for each segment, ``all`` first."""

    rows: tuple[CoverageRow, ...]

    @property
    def all(self) -> CoverageRow:
        """The row of the whole panel."""
        return self.rows[0]


@immutable
class ArmOutcome:
    """The outcome of one arm for each of n users of the panel.

    ``reason`` is 0 for a user whose list can be compared. Otherwise it is the place of the reason
    in `CoverageReason`, counted from 1. The flags are set for users with reason 0 only.
    """

    reason: npt.NDArray[np.int8]
    is_short: Flags
    is_duplicated: Flags


@immutable
class Pairing:
    """Compared users: the batch, each row's panel position, each code's item id, and coverage."""

    batch: PairBatch
    panel_rows: Rows
    vocabulary: pd.Index | None  # the item id of each code; None if the code is the item's id
    coverage: Coverage
    # A hash of both lists for each user of the panel, even if the user has no list
    input_hashes: Hashes
    outcomes: Mapping[Arm, ArmOutcome]
