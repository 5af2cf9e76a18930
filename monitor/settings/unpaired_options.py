"""Options of an unpaired comparison, in which each user is served by one arm only.

They become ordinary sources, which read the same log with other times and arms.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field

from monitor.boundary.options import NOT_IN_HASH, AwareInstant, Duration, Options
from monitor.boundary.options.one_of import OneOf
from monitor.model.rankings import Arm
from monitor.model.unpaired import UnpairedPlan
from monitor.sources import SOURCES, SegmentColumns, SourceOptions, UsersOptions, distinct_columns
from monitor.sources.table_options import ArmColumn, ColumnName

_T = TypeVar("_T", bound=OneOf)
_ArmValue = Annotated[str, Field(min_length=1, max_length=200)]


class UnpairedOptions(Options):
    """An unpaired comparison: each user is served by one arm only, as in an A/B test.

    An unpaired comparison does not detect a change of both arms if the lists of both arms change by
    the same amount, even in different ways. If the candidate can also return lists for the
    baseline's users, prefer a paired comparison.
    """

    stays_partial: ClassVar[bool] = True

    log: SourceOptions
    """The log of the lists that both arms served. The log consists of files, or is a table in a
    database. The key `served` is required, with the keys `time` and `within` below it."""
    arm: ColumnName
    """The column that contains the arm, both in the log and in `assignments`."""
    baseline: _ArmValue
    """The value that rows of the baseline have in the column that is set under `arm`."""
    candidate: _ArmValue
    """The value that rows of the candidate have in the column that is set under `arm`."""
    split: Annotated[
        dict[str, Annotated[float, Field(gt=0, lt=1)]],
        NOT_IN_HASH,
        Field(examples=[{"a": 0.5, "b": 0.5}]),
    ]
    """The planned share of users in each arm. The two shares must add up to 1. If you change the
    split, also set a new `since`."""
    before: AwareInstant = Field(examples=["2026-11-01"])
    """A date or time before the test began. A run compares two lists of each user: the newest list,
    and the last list that the user got before this date or time. Either arm may have served the
    second list."""
    since: AwareInstant | None = Field(default=None, examples=["2026-11-02"])
    """The date or time when the test began (default: `before`). rankwatch ignores assignments
    before this time."""
    before_within: Duration = timedelta(days=90)
    """The maximum age of the user's earlier list, counted back from the time in `before`."""
    segments: SegmentColumns = Field(default=(), max_length=20)
    """The columns whose values divide the users into segments. The columns are in `assignments`, or
    in the log if `assignments` is not set."""
    assignments: UsersOptions | None = None
    """Files or a table that contain the assignments, with the columns user, arm and time. The key
    `served` is required, with the key `time` below it. If you set this key, a run also counts users
    who were assigned to an arm but were never served. If you do not set this key, a run counts only
    users who were served since the test began."""

    outcomes: Annotated[tuple[ColumnName, ...], distinct_columns, NOT_IN_HASH] = Field(
        default=(), max_length=5, examples=[["clicks"]]
    )
    """Columns of the log that contain an outcome of each request, such as clicks. A user's outcome
    is the sum of the column over all requests of the user since the test began. A rule may judge
    this sum with the key `outcome`."""

    @property
    def begins_at(self) -> datetime:
        """When the test began."""
        return self.since or self.before

    def to_plan(self) -> UnpairedPlan:
        """The plan for the pipeline."""
        return UnpairedPlan(
            before=self.before,
            since=self.begins_at,
            baseline_share=self.split[self.baseline],
            outcomes=self.outcomes,
        )

    @property
    def lists_before(self) -> SourceOptions:
        """The users' pre-test lists, which any arm may have served."""
        return self._select(self.log, (), within=self.before_within, until=self.before)

    def lists_of(self, *arms: Arm) -> SourceOptions:
        """The newest lists that these arms served since the test began."""
        # If both arms served a user, the assignment says which list counts. So each arm's newest
        # list is read. Without assignments, such users are left out of the run.
        has_list_per_arm = self.assignments is not None
        return self._select(self.log, arms, has_list_per_arm=has_list_per_arm, since=self.begins_at)

    @property
    def users(self) -> UsersOptions:
        """The users of a run, with their segments."""
        return self.served_users if self.assignments is None else self.assigned

    @property
    def served_users(self) -> UsersOptions:
        """The users of a run with a list, and the arm of their newest list."""
        return self._select(self._served_users, tuple(Arm), since=self.begins_at)

    @property
    def assigned(self) -> UsersOptions:
        """The users that were assigned to an arm since the test began.

        Without ``assignments``, they are the users that an arm served.
        """
        users = self._served_users
        if self.assignments is not None:
            users = self.assignments.model_copy(update={"segments": self.segments})
        return self._select(users, tuple(Arm), within=None, since=self.begins_at)

    @property
    def served_since(self) -> UsersOptions:
        """The rows of the log since the test began, of any arm."""
        return self._select(self._served_users, (), within=None, since=self.begins_at)

    @property
    def outcomes_before(self) -> UsersOptions:
        """The rows of the log before the test, of any arm."""
        within = self.before_within
        return self._select(self._served_users, (), within=within, until=self.before)

    def to_sources(self) -> dict[str, Any]:
        """The sources of a run, by their keys in a comparison.

        The pre-test lists are the baseline, and the current lists are the candidate.
        """
        return {
            "baseline": self.lists_before,
            "candidate": self.lists_of(*Arm),
            "users": self.users,
        }

    @property
    def _served_users(self) -> UsersOptions:
        """The users in the log, with their segments."""
        all_users = SOURCES[self.log.kind].all_users
        assert all_users is not None  # noqa: S101 - the checks require files or a table
        log = self.log.kind_options
        users = all_users(log).model_copy(update={"served": log.served})
        return UsersOptions.model_validate({self.log.kind: users, "segments": self.segments})

    def _select(
        self, source: _T, arms: Sequence[Arm], *, has_list_per_arm: bool = False, **period: object
    ) -> _T:
        """Return a copy of the source that reads rows of these arms and of this period.

        If ``arms`` is empty, the copy reads rows of any arm. With ``has_list_per_arm``, the copy
        reads the newest list of each arm, and otherwise only the newest list of a user.
        """
        column = None
        if arms:
            values = {arm: getattr(self, arm) for arm in arms}
            column = ArmColumn(name=self.arm, value_of=values, has_list_per_arm=has_list_per_arm)
        # The section `served` of a file or a table says which of its rows are read.
        options = source.kind_options
        served = options.served.select(column, **period)
        selected = options.model_copy(update={"served": served})
        return source.model_copy(update={source.kind: selected})
