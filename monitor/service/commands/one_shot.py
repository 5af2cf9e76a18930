"""Runs slots for commands, now or in a past period, and delivers their messages."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from monitor import __version__
from monitor.export.publisher import PrometheusPublisher
from monitor.model.errors import ConfigError, DeliveryError, MonitorError, SlotTakenError
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.ports import Clock, do_nothing
from monitor.model.runs import PullProgress, Run, RunResult, RunStatus, kept_name
from monitor.pipeline.backfill import BackfilledRun
from monitor.pipeline.delivery import OutboxSender, deliver_all
from monitor.receivers.alertmanager import Alertmanager
from monitor.service.clock import MAX_CLOCK_SKEW, SlotClock, SystemClock
from monitor.service.composition import (
    Wiring,
    adapt_store,
    open_wiring,
    set_known_names,
    show_outbox,
)
from monitor.service.heaps import keep_free_memory
from monitor.service.interrupts import termination_raised
from monitor.service.runner import (
    Runner,
    WatchedComparison,
    backfill_runs,
    pick_comparison,
    process_name,
    select_watched,
)
from monitor.settings.loader import load_settings
from monitor.storage import SqlStore, open_store
from monitor.storage.schema_version import process_using
from monitor.texts.slots import write_already_run, write_run_again
from monitor.texts.wording import count_of

MOST_BACKFILLED_SLOTS = 1_000_000
DRAIN_S = 30.0
"""How long a one-shot command tries to deliver messages.

After this time, messages stay in the outbox for the next command or the daemon.
"""
DATABASE_PATIENCE_S = 10.0
"""How long a one-shot command waits for a database that does not answer."""


@immutable
class DueSlot:
    """A slot of a comparison that a replay runs."""

    slot: datetime
    watched: WatchedComparison


@immutable
class OneShot:
    """Runs slots for commands. A daemon may use the same database.

    Runs send pings, but replays do not.
    """

    wiring: Wiring
    store: SqlStore
    publisher: PrometheusPublisher
    clock: Clock = field(default_factory=SystemClock)
    say: Callable[[str], object]
    on_progress: Callable[[str, PullProgress], object] = do_nothing

    def run_once(
        self,
        comparison: str | None,
        slot: datetime | None,
        *,
        at: datetime | None = None,
        again: bool = False,
    ) -> Iterator[RunResult | Run | MonitorError]:
        """Run one slot of each selected comparison. The default is the newest slot.

        ``at`` selects the newest slot at this time. Yields the error if a comparison could not be
        run, and continues with the next one. A stored slot is run again. But if live sources
        answered for it, it is run again only with ``again``. Without ``again`` the stored run is
        yielded. So an external scheduler can repeat the call until all messages are delivered, see
        `deliver`.

        Raises ConfigError for a slot in the future.
        """
        if slot is not None:
            self._require_past(slot, "--slot")
        for watched in select_watched(self.wiring.watched, comparison, again=again):
            now = self.clock.now()
            is_newest = slot is None and at is None
            if is_newest and not watched.schedule.is_open(now):
                following = format_instant(watched.schedule.next(now))
                self.say(
                    f"{watched.comparison.name}: no slot is due now, because of only_between. The "
                    f"next one is {following}"
                )
                continue
            due = slot or watched.schedule.latest(at or now)
            try:
                answered = self._answered_runs(watched, due, due)
                if answered:
                    self.say(_write_answered(watched, answered, again=again))
                if answered and not again:
                    yield answered[0]
                else:
                    yield self._run(watched, due, is_announced=True)
            except MonitorError as error:
                yield error

    def slots(
        self,
        comparison: str | None,
        start: datetime,
        end: datetime,
        *,
        again: bool = False,
    ) -> list[DueSlot]:
        """Return the slots from ``start`` to ``end``, both included, in the order of time.

        Raises ConfigError for slots in the future. Without ``again``, also raises it if live
        sources answered for a slot, because they would answer differently now.
        """
        self._require_past(end, "--until")
        slots: list[DueSlot] = []
        for watched in select_watched(self.wiring.watched, comparison, again=again):
            if (end - start) / watched.schedule.interval > MOST_BACKFILLED_SLOTS:
                raise ConfigError(
                    f"{watched.comparison.name} has more than {MOST_BACKFILLED_SLOTS:,} slots "
                    "in that period: replay it in parts"
                )
            answered = self._answered_runs(watched, start, end)
            if answered:
                notice = _write_answered(watched, answered, again=again)
                if not again:
                    raise ConfigError(notice)
                self.say(notice)
            for slot in watched.schedule.between(start, end):
                slots.append(DueSlot(slot=slot, watched=watched))
        return sorted(slots, key=lambda due: (due.slot, due.watched.comparison.name))

    def replay(self, slots: Sequence[DueSlot], *, is_announced: bool) -> Iterator[RunResult]:
        """Run these slots in order.

        The transitions of a run have the time of its slot. They are sent to receivers only if
        ``is_announced``.
        """
        for due in slots:
            judged_at = SlotClock(due.slot)
            result = self._run(
                due.watched, due.slot, is_announced=is_announced, judged_at=judged_at
            )
            # Drop the large parts of each result, because a long period would need too much memory.
            yield replace(result, scores=None, evidence=(), lists=None, explanation=None)

    def backfill(
        self,
        comparison: str,
        start: datetime | None,
        end: datetime | None,
    ) -> Iterator[BackfilledRun]:
        """Measure relevance that arrived after the runs, and yield the outcome of each run.

        Raises ConfigError if the comparison has no source of relevance.
        """
        watched = pick_comparison(self.wiring.watched, comparison)
        if watched.sources.relevance is None:
            raise ConfigError(
                f"comparison {comparison!r} has no `relevance:` in the configuration: add it, and "
                "later runs wait for labels"
            )
        return backfill_runs(watched, self.store, self.clock, start=start, end=end)

    def deliver(self) -> None:
        """Deliver pending messages, for at most DRAIN_S in total.

        Raises DeliveryError if messages are pending after this time.
        """
        if not self.wiring.receivers:
            return
        # Import this late, because pictures need the code of the pages, which is slow to load.
        from monitor.service.message_pictures import MessagePictures  # noqa: PLC0415

        pictures = MessagePictures(self.store)
        senders = []
        for receiver in self.wiring.receivers:
            sender = OutboxSender(
                outbox=self.store.outbox,
                receiver=receiver,
                clock=self.clock,
                publisher=self.publisher,
                owner=process_name(),
                policy=self.wiring.policy,
                picture_of=partial(pictures.draw, self.wiring.comparisons),
            )
            senders.append(sender)
        # Some receivers need repeated messages about firing alerts. Under cron only this command
        # sends them.
        errors = []
        for sender in senders:
            try:
                sender.resend_alerts()
                sender.repeat_due()
            except DeliveryError as error:
                errors.append(str(error))
        deliver_all(senders, budget_s=DRAIN_S)
        pending = self.store.outbox.waiting(self.clock.now())
        late = []
        for name in self.wiring.receiver_names:
            if name in pending:
                count, _ = pending[name]
                late.append(f"{count} to {name}")
        if late:
            errors.append(
                f"messages not delivered: {', '.join(late)}. They stay pending, and the daemon or "
                "the next run-once tries again"
            )
        if errors:
            raise DeliveryError("; ".join(errors), permanent=False)

    def publish(self, comparison: str | None) -> tuple[str, ...]:
        """Publish the stored state of the selected comparisons, and return their names.

        Raises DatabaseError if the state cannot be read.
        """
        selected = select_watched(self.wiring.watched, comparison)
        names = tuple(watched.comparison.name for watched in selected)
        now = self.clock.now()
        show_outbox(self.store, self.publisher, now)
        self.publisher.publish(self.store.history.latest(names, until=now + MAX_CLOCK_SKEW))
        return names

    def _require_past(self, instant: datetime, name: str) -> None:
        """Raise ConfigError for an instant in the future. ``name`` is its option."""
        # Slots before the newest run are not judged. So after a run in the future no alert would
        # change.
        if instant > self.clock.now():
            raise ConfigError(
                f"{name} {format_instant(instant)} is in the future: choose a slot that is "
                "already due"
            )

    def _answered_runs(
        self,
        watched: WatchedComparison,
        start: datetime,
        end: datetime,
    ) -> list[Run]:
        """Return the stored runs of a period for which live sources answered, newest first.

        Failed runs are not returned: they can be run again, because they have no lists.
        """
        if not watched.is_live:
            return []
        name = watched.comparison.name
        stored = self.store.history.runs(
            comparison=name, limit=MOST_BACKFILLED_SLOTS, since=start, until=end
        )
        return [run for run in stored if run.status in (RunStatus.OK, RunStatus.INSUFFICIENT)]

    def _run(
        self,
        watched: WatchedComparison,
        slot: datetime,
        *,
        is_announced: bool,
        judged_at: Clock | None = None,
    ) -> RunResult:
        """Run the slot, even if it was run before. With ``judged_at``, this is part of a replay.

        Raises SlotTakenError if another process runs the slot.
        """
        receivers = self.wiring.receiver_names if is_announced else ()
        pings = self.wiring.pings if judged_at is None else ()
        runner = Runner(
            store=self.store,
            clock=self.clock,
            publisher=self.publisher,
            patience_s=DATABASE_PATIENCE_S,
            pings=pings,
            comparisons=self.wiring.comparisons,
            on_progress=self.on_progress,
        )
        result = runner.run(watched, slot, receivers=receivers, rerun=True, judged_at=judged_at)
        if result is None:
            raise SlotTakenError(
                self._explain_taken(watched.comparison.name, slot), permanent=False
            )
        return result

    def _explain_taken(self, comparison: str, slot: datetime) -> str:
        """Say which process runs the slot, and what to do."""
        taken = f"{comparison}: another process is running slot {format_instant(slot)} now"
        holder = self.store.runs.held_claim(comparison, slot)
        if holder is None:
            return f"{taken}, or has just ended: try again"
        until = format_instant(holder.until.replace(microsecond=0))
        return (
            f"{taken}: {holder.owner} (host:process) has claimed it until {until}. Try again when "
            "that process has ended the run, or after this time if the process was killed"
        )


def _write_answered(watched: WatchedComparison, answered: Sequence[Run], *, again: bool) -> str:
    """Write that the slots have already run, and whether they are run again now."""
    newest = answered[0]
    name = watched.comparison.name
    earlier = kept_name(name, newest.attempt)
    slot = format_instant(newest.slot)
    if not again:
        return write_already_run(name, len(answered), slot, earlier)
    notice = write_run_again(name, len(answered), slot, earlier)
    return f"{notice}. Files of scores_to are replaced" if watched.sources.scores_to else notice


def _reconcile(wiring: Wiring, store: SqlStore, config: Path, say: Callable[[str], object]) -> None:
    """End the alerts that the configuration no longer has, and say so.

    If a daemon uses the database, its configuration decides which alerts there are. The command's
    configuration may be a draft, or contain only one comparison.
    """
    if process_using(wiring.settings.database, may_be_run=False) is not None:
        return
    ends = adapt_store(wiring, store, SystemClock())
    for comparison, count in Counter(end.comparison for end in ends).items():
        say(
            f"{count_of(count, 'alert')} of {comparison} ended, because {config} no longer has their rules. "
            "Use one configuration for each database"
        )


@contextmanager
def open_one_shot(
    config: Path,
    *,
    reconciles: bool,
    say: Callable[[str], object] = do_nothing,
) -> Iterator[OneShot]:
    """Open everything that a command needs to run slots, and close it at the end.

    With ``reconciles``, first ends the alerts that the configuration no longer has. ``say`` prints
    a message for the user.
    """
    keep_free_memory()
    with (
        # SIGTERM ends the block like Ctrl-C, so that the present slot is released.
        termination_raised(),
        closing(open_wiring(load_settings(config))) as wiring,
        closing(open_store(wiring.settings.database, create=True)) as store,
    ):
        if reconciles:
            _reconcile(wiring, store, config, say)
        for receiver in wiring.receivers:
            if isinstance(receiver, Alertmanager):
                receiver.intervals = wiring.policy.intervals
        publisher = PrometheusPublisher(version=__version__)
        set_known_names(publisher, wiring)
        yield OneShot(wiring=wiring, store=store, publisher=publisher, say=say)
