"""The exceptions that rankwatch raises, and the exit code of the command line for each.

    MonitorError                    1
    ├── ConfigError                 2   the configuration, an option or an argument is wrong
    ├── InputError                  2   data for the Python interface cannot be read as rankings
    │   └── MetricError             2   no such metric or parameter, or its value is out of range
    ├── SourceError                 3   a source of lists or users could not be read at all
    │   ├── UserDataError           3   the data of one user is the cause
    │   └── UnreadableError         3   rows that cannot be read, or unexpected names, are the cause
    ├── OutputError                 3   a run's scores could not be written to files
    ├── RunError                    3   a run could not be completed
    │   └── SlotTakenError          3   another process runs the slot at this moment
    ├── DatabaseError               4   the database is unreachable, locked, or refuses a statement
    │   ├── SchemaError             4   the database's schema is older or newer than this program
    │   └── LeaseLostError          4   another daemon leads now, so this one does not write
    └── DeliveryError               5   a receiver did not accept a notification

If only one user fails, no exception is raised. `Coverage` counts the failure. Errors of I/O have
``permanent``, which is False if the same call may succeed later. Messages say what failed, where,
and what to do. They never contain a secret.
"""

import traceback
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

_LONGEST_USER = 60
_PROGRAM = Path(__file__).parents[1]


def describe_fault(error: BaseException) -> str:
    """Return the class of an unexpected error, and the line of our code where it happened.

    The error's text is left out, because it may quote data.
    """
    frames = traceback.extract_tb(error.__traceback__)
    our_frames = [frame for frame in frames if Path(frame.filename).is_relative_to(_PROGRAM)]
    last_frame = (our_frames or frames)[-1]
    return f"{type(error).__name__} in {Path(last_frame.filename).name}, line {last_frame.lineno}"


class MonitorError(Exception):
    """Base of all errors of rankwatch. The text is one line for a person."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, permanent: bool = True) -> None:
        super().__init__(message)
        self.permanent = permanent


class ConfigError(MonitorError):
    """The configuration cannot be used. The text has one line for each problem."""

    exit_code = 2


class InputError(MonitorError):
    """Data for the Python interface or for ``compare`` cannot be read as rankings."""

    exit_code = 2


class MetricError(InputError):
    """A metric's name or parameter is unknown or out of range."""


class SourceError(MonitorError):
    """A source could not be read. For example, a file is missing, or a query is refused."""

    exit_code = 3

    @property
    def shown(self) -> str:
        """The text for readers that may see users. It may quote data of the source."""
        return str(self)


class UserDataError(SourceError):
    """The data of one ``user`` cannot be read. ``what`` is the text without the user."""

    def __init__(self, user: str, what: str) -> None:
        super().__init__(f"user {user[:_LONGEST_USER]!r} {what}")
        self.user = user
        self.what = what


class UnreadableError(SourceError):
    """The data of a source cannot be read.

    The text contains no value or name from the source. ``shown`` contains examples.
    """

    def __init__(self, message: str, shown: str) -> None:
        super().__init__(message)
        self._shown = shown

    @property
    def shown(self) -> str:
        """The text with examples."""
        return self._shown


class OutputError(MonitorError):
    """A run's scores could not be written to the place in ``scores_to``, or to temporary files."""

    exit_code = 3


class RunError(MonitorError):
    """A run could not be completed."""

    exit_code = 3


class SlotTakenError(RunError):
    """Another process has claimed the slot."""


class DatabaseErrorKind(StrEnum):
    """Why the database did not execute a statement. A metric has these values as a label."""

    UNREACHABLE = "unreachable"
    HUNG = "hung"  # the database did not answer in time
    DENIED = "denied"
    DISK = "disk"
    LOCKED = "locked"
    CONFLICT = "conflict"  # this is normal with many writers
    READ_ONLY = "read_only"
    OVERLOADED = "overloaded"
    SCHEMA = "schema"
    DAMAGED = "damaged"
    OTHER = "other"


class DatabaseError(MonitorError):
    """The database could not be reached, or it refused the statement."""

    exit_code = 4
    kind = DatabaseErrorKind.OTHER

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = True,
        kind: DatabaseErrorKind | None = None,
    ) -> None:
        super().__init__(message, permanent=permanent)
        self.kind = kind or self.kind


class SchemaError(DatabaseError):
    """The database's schema does not fit this version of the program."""

    kind = DatabaseErrorKind.SCHEMA


class LeaseLostError(DatabaseError):
    """This daemon does not lead. A retry is useless, because the leader does the work."""

    kind = DatabaseErrorKind.CONFLICT


class DeliveryErrorKind(StrEnum):
    """Why a message was not delivered. A metric has these values as a label."""

    REFUSED = "refused"
    RATE_LIMITED = "rate_limited"
    NO_ANSWER = "no_answer"
    UNREACHABLE = "unreachable"


class DeliveryError(MonitorError):
    """A receiver did not accept a message. It is ``permanent`` if sending again is useless.

    If ``may_be_known`` is True, the receiver may have the message, for example after a timeout. If
    ``of_message`` is True, the receiver may accept another message, or a part of this message.
    """

    exit_code = 5

    def __init__(
        self,
        message: str,
        *,
        permanent: bool,
        retry_after_s: float | None = None,
        may_be_known: bool = False,
        of_message: bool = False,
    ) -> None:
        super().__init__(message, permanent=permanent)
        self.retry_after_s = retry_after_s
        self.may_be_known = may_be_known
        self.of_message = of_message

    @property
    def kind(self) -> DeliveryErrorKind:
        """The kind of the failure."""
        if self.permanent:
            return DeliveryErrorKind.REFUSED
        if self.retry_after_s is not None:
            return DeliveryErrorKind.RATE_LIMITED
        if self.may_be_known:
            return DeliveryErrorKind.NO_ANSWER
        return DeliveryErrorKind.UNREACHABLE
