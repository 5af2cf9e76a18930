"""Who is notified: receivers of alerts, watchers of runs, and the publisher of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from monitor.errors import DatabaseTrouble, DeliveryTrouble
from monitor.model import Claim, DataKind, LatestRun, Message, Pruned, RunResult, Treatment


class Receiver(Protocol):
    """Somebody who is notified; it holds nothing that would have to be closed.

    Sending the same message twice must be harmless there (same incident, same dedup keys).
    """

    @property
    def name(self) -> str:
        """Name from configuration, unique, free of secrets; a metric label and a key of the outbox."""

    @property
    def treatment(self) -> Treatment:
        """How it wants to be treated; always the same."""

    def send(self, message: Message, *, now: datetime) -> None:
        """Deliver this message. DeliveryError when it was not accepted.

        ``permanent`` if it never will be, ``of_message`` if that is due to its content, ``may_be_known`` if it may have
        arrived all the same.
        """


class RunWatcher(Protocol):
    """A service that is pinged about each run, and alerts when pings stay away. Never raises, never holds up a run."""

    def run_started(self, claim: Claim) -> None:
        """A run has begun."""

    def run_finished(self, claim: Claim, failure: str | None) -> None:
        """It has ended: well for None, else why not; a run that is ``insufficient`` has not ended well."""

    def close(self, timeout_s: float) -> None:
        """Send what still waits, for so long at most, and release what is held; may be called twice."""


class Publisher(Protocol):
    """Shows the state of the world to whoever watches the daemon. Never raises, never blocks on I/O."""

    def publish(self, latest: Sequence[LatestRun]) -> None:
        """Replace everything shown about comparisons by these; a comparison that is not among them disappears."""

    def run_finished(self, result: RunResult) -> None:
        """Count a run by status and observe how long it and its stages took."""

    def slots_skipped(self, comparison: str, reason: str, count: int = 1) -> None:
        """Count slots that did not run: ``missed`` (nobody was there), ``overlap`` (the last run had not ended) or ``busy``."""

    def notified(self, receiver: str, outcome: str) -> None:
        """Count one attempt to deliver: ``sent``, ``retry`` or ``dead``."""

    def delivery_failed(self, receiver: str, trouble: DeliveryTrouble) -> None:
        """Count an attempt to deliver that failed, by what kept it from arriving."""

    def outbox(
        self,
        pending: Mapping[str, int],
        oldest_s: Mapping[str, float],
        held: Mapping[str, int],
        given_up: Mapping[str, int],
    ) -> None:
        """Deliveries waiting, the age of the oldest, deliveries held back and those lately given up, by receiver."""

    def run_abandoned(self, comparison: str) -> None:
        """Count a run that hung and was given up."""

    def database(self, *, is_up: bool) -> None:
        """Show whether the database can be read and written."""

    def database_failed(self, trouble: DatabaseTrouble) -> None:
        """Count an error of the database by its kind."""

    def clock_jumped(self) -> None:
        """Count a jump of the wall clock."""

    def restarted(self, part: str) -> None:
        """Count what the watchdog began anew: ``run``, ``scheduler``, ``delivery`` or ``housekeeping``."""

    def database_sizes(self, used_bytes: Mapping[DataKind, int]) -> None:
        """Show what each kind of data takes."""

    def pruned(self, pruned: Pruned, *, at: datetime) -> None:
        """Count what was deleted, and show when that was last done."""

    def reloaded(self, *, ok: bool, at: datetime) -> None:
        """Show whether the configuration file last read is the one in force."""
