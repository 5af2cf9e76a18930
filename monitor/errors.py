"""Every exception that rankwatch raises on purpose, and the exit code each ends the command line with.

    MonitorError                    1
    ├── ConfigError                 2   the configuration, an option or an argument is wrong
    ├── InputError                  2   data handed to the Python interface cannot be read as rankings
    │   └── MetricError             2   no such metric or parameter, or its value is out of range
    ├── SourceError                 3   a source (of lists or of users) could not be read as a whole
    │   ├── UserDataError           3   by what it holds of one user
    │   └── UnreadableError         3   by what it holds: rows that cannot be read, names that are not the expected ones
    ├── OutputError                 3   scores could not be written to where `scores_to` says
    ├── RunError                    3   a run could not be brought to an end
    │   └── SlotTakenError          3   the slot is being run by somebody else at this moment
    ├── DatabaseError               4   the database is away, locked, or refuses
    │   ├── SchemaError             4   the database's schema is older or newer than this program
    │   └── LeaseLostError          4   another daemon leads now: what this one began is not written
    └── DeliveryError               5   a receiver did not take a notification

A failure of one user is no exception: it is counted in Coverage. I/O errors carry ``permanent``: False when the same call
may succeed later. Messages say what failed, which one, what was expected, and what to do; they never hold a secret.
"""

import traceback
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

_LONGEST_USER = 60
_PROGRAM = Path(__file__).parent


def describe_fault(error: BaseException) -> str:
    """Return the type of an unexpected error and its place in our code.

    The error's own text can quote data.
    """
    frames = traceback.extract_tb(error.__traceback__)
    our_frames = [frame for frame in frames if Path(frame.filename).is_relative_to(_PROGRAM)]
    last_frame = (our_frames or frames)[-1]
    return f"{type(error).__name__} in {Path(last_frame.filename).name}, line {last_frame.lineno}"


class MonitorError(Exception):
    """Base of every error below; its text is one line made for a person."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, permanent: bool = True) -> None:
        super().__init__(message)
        self.permanent = permanent


class ConfigError(MonitorError):
    """The configuration cannot be used; the text lists every problem, one a line."""

    exit_code = 2


class InputError(MonitorError):
    """Data given to the Python interface or to ``compare`` cannot be read as rankings."""

    exit_code = 2


class MetricError(InputError):
    """A metric's name or parameter is unknown or out of range."""


class SourceError(MonitorError):
    """A source could not be read as a whole: file missing, column wrong, query refused."""

    exit_code = 3

    @property
    def shown(self) -> str:
        """The text where users need not be hidden; it may name what the source holds."""
        return str(self)


class UserDataError(SourceError):
    """What a source holds of one ``user`` makes all of it unreadable.

    ``what`` is the text without the user.
    """

    def __init__(self, user: str, what: str) -> None:
        super().__init__(f"user {user[:_LONGEST_USER]!r} {what}")
        self.user, self.what = user, what


class UnreadableError(SourceError):
    """What a source holds cannot be read.

    The text has no value or name that it holds; ``shown`` has examples.
    """

    def __init__(self, message: str, shown: str) -> None:
        super().__init__(message)
        self._shown = shown

    @property
    def shown(self) -> str:
        """The text with examples."""
        return self._shown


class OutputError(MonitorError):
    """A run's scores could not be written to where the configuration wants them beside the database."""

    exit_code = 3


class RunError(MonitorError):
    """A run could not be brought to an end."""

    exit_code = 3


class SlotTakenError(RunError):
    """Another process holds the claim on the slot."""


class DatabaseTrouble(StrEnum):
    """What kept the database from doing what it was asked for; a closed set, a label of metrics."""

    UNREACHABLE = "unreachable"
    HUNG = "hung"  # it neither did it nor refused
    DENIED = "denied"
    DISK = "disk"
    LOCKED = "locked"
    CONFLICT = "conflict"  # everyday life among many writers
    READ_ONLY = "read_only"
    OVERLOADED = "overloaded"
    SCHEMA = "schema"
    DAMAGED = "damaged"
    OTHER = "other"


class DatabaseError(MonitorError):
    """The store could not be reached or refused the statement."""

    exit_code = 4
    trouble = DatabaseTrouble.OTHER

    def __init__(
        self, message: str, *, permanent: bool = True, trouble: DatabaseTrouble | None = None
    ) -> None:
        super().__init__(message, permanent=permanent)
        self.trouble = trouble or self.trouble


class SchemaError(DatabaseError):
    """The database's schema does not fit this version of the program."""

    trouble = DatabaseTrouble.SCHEMA


class LeaseLostError(DatabaseError):
    """This daemon does not lead, or not any more: trying again cannot help, whoever leads does the work."""

    trouble = DatabaseTrouble.CONFLICT


class DeliveryTrouble(StrEnum):
    """What keeps a message from being delivered. A closed set: it becomes a metric label."""

    REFUSED = "refused"
    RATE_LIMITED = "rate_limited"
    NO_ANSWER = "no_answer"
    UNREACHABLE = "unreachable"


class DeliveryError(MonitorError):
    """A receiver did not take a message; ``permanent`` when sending the same again cannot help.

    ``may_be_known``: it may have taken it, as after a time-out. ``of_message``: another one, or a
    part, may be taken."""

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
    def trouble(self) -> DeliveryTrouble:
        """Its kind: refused for good, put off, not known to have arrived, or not sent at all."""
        if self.permanent:
            return DeliveryTrouble.REFUSED
        if self.retry_after_s is not None:
            return DeliveryTrouble.RATE_LIMITED
        return DeliveryTrouble.NO_ANSWER if self.may_be_known else DeliveryTrouble.UNREACHABLE
