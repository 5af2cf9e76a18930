"""Slots run on demand for commands, one now or a past period in order, and their metrics, to a textfile or pushed."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit

from prometheus_client import push_to_gateway
from prometheus_client.exposition import basic_auth_handler
from prometheus_client.metrics_core import Metric

from monitor import __version__
from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import ConfigError, DeliveryError, MonitorError, SlotTakenError
from monitor.export.exposition import (
    FamilyCollector,
    families_of_comparison,
    with_counts,
    write_families,
    write_textfile,
)
from monitor.export.publisher import PrometheusPublisher
from monitor.foreign_errors import note_error, system_cause
from monitor.model.instants import format_instant
from monitor.model.runs import PullProgress, RunResult, RunStatus, kept_name
from monitor.options import web_url_of
from monitor.pipeline.backfill import BackfilledRun
from monitor.pipeline.delivery import OutboxSender, drain
from monitor.ports import Clock, Store
from monitor.receivers.alertmanager import Alertmanager
from monitor.service.clock import SKEW, SlotClock, SystemClock
from monitor.service.composition import Wiring, reconcile, set_known_names, show_outbox, wire
from monitor.service.interrupts import termination_raised
from monitor.service.message_pictures import MessagePictures
from monitor.service.runner import (
    Runner,
    Watched,
    backfill_runs,
    pick_comparison,
    select_watched,
    whoami,
)
from monitor.settings.loader import load_settings
from monitor.storage import open_store

MOST_SLOTS = 1_000_000
DRAIN_S = 30.0
"""How long a one-shot command goes on trying to deliver.

What is left waits in the outbox for the next one or the daemon.
"""
DATABASE_PATIENCE_S = 10.0
"""How long a one-shot command waits for a database that is away."""

TIMEOUT_S = 10.0
"""How long one group may take from first to last byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShot:
    """Runs slots outside the daemon, against the same database.

    Pings watch each run that is not replayed.
    """

    wiring: Wiring
    store: Store
    publisher: PrometheusPublisher
    clock: Clock = field(default_factory=SystemClock)
    say: Callable[[str], object] = str
    on_progress: Callable[[str, PullProgress], object] = lambda *_: None

    def run_once(
        self, comparison: str | None, slot: datetime | None, *, again: bool = False
    ) -> Iterator[RunResult | MonitorError]:
        """Run one slot of each selected comparison, the newest where none is given.

        A slot that was run before is run again.

        Yields the error of a comparison that could not be run, and goes on. `deliver` sends what is
        in the outbox. ConfigError for a slot in the future. What only ``again`` replaces stays:
        schedulers may start this until messages are delivered.
        """
        if slot is not None:
            self._require_past(slot, "--slot")
        for watched in select_watched(self.wiring.watched, comparison, again=again):
            if slot is None and not watched.schedule.is_open(now := self.clock.now()):
                following = format_instant(watched.schedule.next(now))
                self.say(
                    f"{watched.comparison.name}: no slot is due outside of only_between, the "
                    f"next one is {following}"
                )
                continue
            due = slot or watched.schedule.latest(self.clock.now())
            try:
                if (refusal := self._refuse(watched, due, due, again=again)) is None:
                    yield self._run(watched, due, is_announced=True)
                else:
                    self.say(refusal)
            except MonitorError as error:
                yield error

    def slots(
        self, comparison: str | None, start: datetime, end: datetime, *, again: bool = False
    ) -> list[tuple[datetime, Watched]]:
        """Slots from start to end, both included, in order.

        ConfigError in the future, or where only ``again`` replaces one.
        """
        self._require_past(end, "--to")
        selected = select_watched(self.wiring.watched, comparison, again=again)
        for watched in selected:
            if (end - start) / watched.schedule.interval > MOST_SLOTS:
                msg = (
                    f"{watched.comparison.name} has more than {MOST_SLOTS:,} slots in that "
                    "period: replay it in parts"
                )
                raise ConfigError(msg)
            if (refusal := self._refuse(watched, start, end, again=again)) is not None:
                raise ConfigError(refusal)
        slots = [
            (slot, watched) for watched in selected for slot in watched.schedule.between(start, end)
        ]
        return sorted(slots, key=lambda pair: (pair[0], pair[1].comparison.name))

    def replay(
        self, slots: list[tuple[datetime, Watched]], *, is_announced: bool
    ) -> Iterator[RunResult]:
        """Run these slots in order.

        Transitions carry the slot's time, and go to the outbox only if ``is_announced``.
        """
        for slot, watched in slots:
            result = self._run(watched, slot, is_announced=is_announced, judged_at=SlotClock(slot))
            # Without scores, lists, evidence and explanation a long period takes no more memory
            # than a short one.
            yield replace(result, scores=None, evidence=(), lists=None, explanation=None)

    def backfill(
        self, comparison: str, start: datetime | None, end: datetime | None
    ) -> Iterator[BackfilledRun]:
        """Back-fill relevance that has arrived since, run by run.

        ConfigError when the comparison has no source of it.
        """
        watched = pick_comparison(self.wiring.watched, comparison)
        if watched.arms.relevance is None:
            msg = (
                f"comparison {comparison!r} has no `relevance:` in the configuration, so no "
                "run of it waits for labels"
            )
            raise ConfigError(msg)
        return backfill_runs(watched, self.store, self.clock, start=start, end=end)

    def deliver(self) -> None:
        """Deliver what is pending, for at most DRAIN_S in all.

        DeliveryError when something is still pending then.
        """
        pictures = MessagePictures(self.store, lambda: self.wiring)
        senders = [
            OutboxSender(
                outbox=self.store.outbox,
                receiver=receiver,
                clock=self.clock,
                publisher=self.publisher,
                owner=whoami(),
                policy=self.wiring.policy,
                picture_of=pictures.draw,
            )
            for receiver in self.wiring.receivers
        ]
        # Under cron there is no loop that sends firing alerts again to the receivers that want
        # that.
        troubles = []
        for sender in senders:
            try:
                sender.resend_firing()
                sender.repeat_due()
            except DeliveryError as error:
                troubles.append(str(error))
        drain(senders, budget_s=DRAIN_S)
        pending = self.store.outbox.waiting(self.clock.now())
        if late := [
            f"{pending[each.name][0]} to {each.name}"
            for each in self.wiring.receivers
            if each.name in pending
        ]:
            troubles.append(
                f"messages not delivered: {', '.join(late)}; they stay pending: the daemon or "
                "run-once tries again"
            )
        if troubles:
            raise DeliveryError("; ".join(troubles), permanent=False)

    def publish(self, comparison: str | None) -> tuple[str, ...]:
        """Publish what is stored of the selected comparisons.

        Their names. DatabaseError when it cannot be read.
        """
        names = tuple(
            watched.comparison.name for watched in select_watched(self.wiring.watched, comparison)
        )
        now = self.clock.now()
        show_outbox(self.store, self.publisher, now)
        self.publisher.publish(self.store.history.latest(names, until=now + SKEW))
        return names

    def _require_past(self, instant: datetime, name: str) -> None:
        # A slot judged ahead of time would keep every slot before it from being judged.
        if instant > self.clock.now():
            raise ConfigError(
                f"{name} {format_instant(instant)} is in the future: only slots that are due "
                "can be run"
            )

    def _refuse(
        self, watched: Watched, start: datetime, end: datetime, *, again: bool
    ) -> str | None:
        """Why slots that hold what live sources answered then are not run again.

        With ``again`` it is said what happens.
        """
        if not watched.is_live:
            return None
        stored = self.store.history.runs(
            comparison=watched.comparison.name, limit=MOST_SLOTS, since=start, until=end
        )
        # What failed holds no lists, and a retry is what one-shot commands are for; that attempt is
        # kept, too.
        held = [run for run in stored if run.status in (RunStatus.OK, RunStatus.INSUFFICIENT)]
        if not held:
            return None
        name, slot = watched.comparison.name, format_instant(held[0].slot)
        runs = (
            f"the run of {slot}" if len(held) == 1 else f"{len(held):,} runs, the newest of {slot},"
        )
        kept = kept_name(name, held[0].attempt)
        if not again:
            return (
                f"{name}: {runs} stored what live sources answered then, and asked again they "
                f"would answer for now. rankwatch show {name} --slot {slot} shows it; --again asks "
                f"anew, and keeps what is stored as {kept}"
            )
        written = "; files of scores_to are replaced" if watched.arms.scores_to is not None else ""
        self.say(
            f"{name}: {runs} asked anew; what was stored stays: rankwatch show {kept} --slot "
            f"{slot}{written}"
        )
        return None

    def _run(
        self,
        watched: Watched,
        slot: datetime,
        *,
        is_announced: bool,
        judged_at: Clock | None = None,
    ) -> RunResult:
        receivers = self.wiring.receiver_names if is_announced else ()
        pings = self.wiring.pings if judged_at is None else ()
        runner = Runner(
            store=self.store,
            clock=self.clock,
            publisher=self.publisher,
            patience_s=DATABASE_PATIENCE_S,
            pings=pings,
        )
        runner.on_progress = self.on_progress
        result = runner.run(watched, slot, receivers=receivers, rerun=True, judged_at=judged_at)
        if result is None:
            raise SlotTakenError(
                self._explain_taken(watched.comparison.name, slot), permanent=False
            )
        return result

    def _explain_taken(self, comparison: str, slot: datetime) -> str:
        taken = (
            f"{comparison}: another process is running slot {format_instant(slot)} at this moment"
        )
        holder = self.store.runs.held_claim(comparison, slot)
        if holder is None:
            return f"{taken}, or was until just now: try again"
        until = format_instant(holder.until.replace(microsecond=0))
        return (
            f"{taken}: {holder.owner} (host:process) holds it until {until}; try again when it has "
            "ended, or after that time if it was killed: the slot is taken over then"
        )


@contextmanager
def open_one_shot(
    config: Path, *, reconciles: bool, say: Callable[[str], object] = str
) -> Iterator[OneShot]:
    """What a command needs to run slots, closed at the end.

    ``say`` tells a person beforehand what is about to happen.
    """
    with (
        # SIGTERM ends the block as Ctrl-C does, so that a slot that was being run is given back.
        termination_raised(),
        closing(wire(load_settings(config))) as wiring,
        closing(open_store(wiring.settings.database, create=True)) as store,
    ):
        if reconciles:
            reconcile(wiring, store, SystemClock())
        for receiver in wiring.receivers:
            if isinstance(receiver, Alertmanager):
                receiver.intervals = {
                    name: watched.schedule.longest for name, watched in wiring.watched.items()
                }
        publisher = PrometheusPublisher(version=__version__)
        set_known_names(publisher, wiring)
        yield OneShot(wiring=wiring, store=store, publisher=publisher, say=say)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A Pushgateway and the credentials for it.

    ``instance`` separates groups that would else be one.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    instance: str = ""

    def put(self, families: Iterable[Metric], comparison: str) -> None:
        """Replace the group of a comparison, or for "" of none, by these families.

        DeliveryError when it is rejected.
        """
        labels = {"instance": self.instance, "comparison": comparison}
        push = partial(
            push_to_gateway,
            self.url,
            job="rankwatch",
            registry=FamilyCollector([*map(with_counts, families)]),
            grouping_key={name: value for name, value in labels.items() if value},
            timeout=TIMEOUT_S,
        )
        if self.user:
            push = partial(
                push,
                handler=partial(basic_auth_handler, username=self.user, password=self.password),
            )
        try:
            # The library's time-out is that of one read, and an answer may trickle.
            BackgroundCall(push, name="push").wait(Deadline.after(TIMEOUT_S))
        except OverdueError:
            raise DeliveryError(
                f"Pushgateway at {self.url} did not answer within {TIMEOUT_S:g} s", permanent=False
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            note_error(error)
            if isinstance(error, HTTPError):
                error.close()  # it owns the connection
                reason = f"it answered {error.code}"
            else:
                reason = str(system_cause(error) or "it did not answer in HTTP")
            raise DeliveryError(
                f"Pushgateway at {self.url} took no metrics: {reason}", permanent=False
            ) from None


def gateway_at(text: str, *, instance: str = "") -> Gateway:
    """The Pushgateway at ``http(s)://[user:password@]host[:port][/path]``.

    ConfigError, without a secret, for anything else.
    """
    option = "--push (or RANKWATCH_PUSH) "
    try:
        parts = urlsplit(text)
        credentials, _, host = parts.netloc.rpartition("@")
        url = parts._replace(netloc=host, path=parts.path.rstrip("/")).geturl()
        (parts.hostname or "").encode("idna")  # no part of the name is empty or too long
        is_url = web_url_of(url) is not None and not parts.fragment
    except ValueError:
        is_url = False
    if not is_url:
        raise ConfigError(f"{option}must be a URL such as http://pushgateway.internal:9091")
    if parts.query or "@" in parts.path:
        raise ConfigError(
            f"{option}must end with its path: write special characters of user and password as "
            "%XX, / as %2F"
        )
    user, _, password = credentials.partition(":")
    return Gateway(url=url, user=unquote(user), password=unquote(password), instance=instance)


def write_metrics(
    service: OneShot, comparison: str | None, *, textfile: Path | None, gateway: Gateway | None
) -> Iterator[MonitorError | OSError]:
    """Write the stored state of the selected comparison, or of all, to the file and the gateway; what went wrong."""
    try:
        if textfile is not None:
            names, families = service.publish(comparison), service.publisher.final()
            # Of one comparison its own series alone: another file may hold the others.
            if comparison is not None:
                families = tuple(
                    each for name in names for each in families_of_comparison(families, name)
                )
            write_textfile(textfile, write_families(families))
    except (MonitorError, OSError) as error:
        yield error
    try:
        if gateway is not None:
            names, families = service.publish(comparison), service.publisher.final()
            # A group for each comparison, and one for what belongs to none.
            for name in (*names, None):
                gateway.put(families_of_comparison(families, name), name or "")
    except MonitorError as error:
        yield error
