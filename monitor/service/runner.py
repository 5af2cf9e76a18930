"""Runs one slot of one comparison: claims the slot, measures, stores and publishes the result.

Also measures relevance that arrives after the run.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import stamina
import structlog

from monitor.boundary.deadline import OverdueError, call_in_time
from monitor.boundary.options import format_duration
from monitor.model.errors import (
    ConfigError,
    DatabaseError,
    MonitorError,
    OutputError,
    describe_fault,
)
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.memory import Memory
from monitor.model.ports import Clock, ScoreSpool, do_nothing
from monitor.model.rules import Comparison
from monitor.model.runs import Claim, PullProgress, RunResult, RunStatus
from monitor.pipeline.backfill import BackfilledRun, backfill_relevance
from monitor.pipeline.pull import ComparisonSources
from monitor.pipeline.run import execute, failed_result, memory_request
from monitor.pipeline.run_scores import RunScores
from monitor.service.interrupts import interrupts_held
from monitor.service.silence_check import SilenceCheck
from monitor.settings.schedule import Schedule
from monitor.sources.kept_answers import AnswerFolder

if TYPE_CHECKING:  # because importing prometheus_client is slow
    from monitor.export.publisher import PrometheusPublisher
    from monitor.receivers.pings import RunPings
    from monitor.storage import SqlStore

_T = TypeVar("_T")

STORING_TIME = timedelta(minutes=5)
"""How long a run keeps its claim after its deadline, to store its result."""
FINISHING_S = 60.0
"""How long a run may continue after its deadline, to measure the answers of its sources."""
_LOGGED_S = 10

log = structlog.get_logger(__name__)


def process_name() -> str:
    """Return the name of this process. Processes that share a database have different names."""
    return f"{socket.gethostname()}:{os.getpid()}"


@immutable
class WatchedComparison:
    """A comparison with its opened sources and its schedule."""

    comparison: Comparison
    sources: ComparisonSources
    schedule: Schedule
    answers: AnswerFolder | None = None  # stores the answers of a run until the run is stored
    # Whether the answers of its sources depend on the time of the request. If so, a slot that is
    # run again gets other answers.
    is_live: bool = False
    # Locked while a run reads from the sources.
    in_use: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def staleness_limit(self) -> timedelta:
        """If there is no ok run for longer than this, the comparison is stale."""
        return (
            self.comparison.judging.stale_after * self.schedule.longest
            + self.comparison.measuring.deadline
        )


def select_watched(
    watched: Mapping[str, WatchedComparison],
    name: str | None,
    *,
    again: bool = False,
) -> tuple[WatchedComparison, ...]:
    """Return the comparison or the family with this name. Without a name return all.

    A family has one comparison for each candidate. With ``again`` the sources are asked again,
    instead of using stored answers.

    Raises ConfigError if there is no such comparison.
    """
    selected = [
        watched_comparison
        for watched_comparison in watched.values()
        if name in (None, watched_comparison.comparison.family)
    ]
    if not selected:
        selected = [pick_comparison(watched, name or "")]
    if again:
        selected = [replace(watched_comparison, answers=None) for watched_comparison in selected]
    return tuple(selected)


def pick_comparison(comparisons: Mapping[str, _T], name: str) -> _T:
    """Return the comparison with this name. Raises ConfigError if there is none."""
    if name not in comparisons:
        raise ConfigError(f"no comparison named {name!r}: choose one of {', '.join(comparisons)}")
    return comparisons[name]


def backfill_runs(
    watched: WatchedComparison,
    store: SqlStore,
    clock: Clock,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Iterator[BackfilledRun]:
    """Measure late relevance, and yield the outcome of each run that waits for relevance.

    Yields nothing if the comparison has no source of relevance.
    """
    if watched.sources.relevance is None:
        return
    runs = backfill_relevance(
        watched.comparison,
        store,
        watched.sources.relevance,
        clock,
        start=start,
        end=end,
    )
    while True:
        # Release the sources after each run, so that the next slot does not wait for all of them.
        with watched.in_use:
            run = next(runs, None)
        if run is None:
            return
        yield run


class _NotMeasuredError(Exception):
    """A run has no result. The text says why, and becomes the reason of the failed run."""


def _open_spool() -> ScoreSpool:
    # Import DuckDB only here, because most runs do not need it: their scores fit into memory.
    from monitor.storage.score_spool import DuckSpool  # noqa: PLC0415

    return DuckSpool()


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs slots against one store."""

    store: SqlStore
    clock: Clock
    owner: str = field(default_factory=process_name)
    publisher: PrometheusPublisher | None = None
    patience_s: float = 120.0  # how long each statement waits for the database
    # These pings get the start and the end of each run, but no end if the claim was released or
    # lost.
    pings: tuple[RunPings, ...] = ()
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)  # all, by name
    claims: dict[int, Claim] = field(default_factory=dict)  # the claims of runs at work
    # How far the pulls of present runs are, by comparison.
    progress: dict[str, dict[str, PullProgress]] = field(default_factory=dict)
    on_progress: Callable[[str, PullProgress], object] = do_nothing
    renew_sources: Callable[[str], object] = do_nothing  # called if a run of the comparison hangs
    left_behind: int = 0  # the number of runs that hung
    _silences: SilenceCheck = field(init=False)

    def __post_init__(self) -> None:
        self._silences = SilenceCheck(self.store, self.clock)

    def run(
        self,
        watched: WatchedComparison,
        slot: datetime,
        *,
        receivers: tuple[str, ...],
        rerun: bool = False,
        judged_at: Clock | None = None,
    ) -> RunResult | None:
        """Run the slot.

        Returns None if another process has claimed the slot, or took it over before the result was
        stored.

        ``receivers`` get every start and end of an alert. Transitions get their time from the clock
        ``judged_at``. The default is the runner's clock.
        """
        # The claim, or nothing. It is a list, so that `_claim` can hand over the claim in spite of
        # an interrupt.
        taken: list[Claim] = []
        try:
            self.call_with_retries(
                partial(self._claim, watched.comparison, slot, taken, rerun=rerun)
            )
            if not taken:
                return None
            # Live sources cannot repeat their earlier answers, so an earlier run of the slot stays.
            claim = replace(taken[0], keeps_earlier=watched.is_live)
            return self._run(watched, claim, receivers, judged_at or self.clock)
        except BaseException as error:
            for claim in taken:
                self._give_back(claim)
                if isinstance(error, MonitorError):
                    self._ping_end(claim, str(error))
            raise
        finally:
            for claim in taken:
                self.claims.pop(claim.run_id, None)
                self.progress.pop(claim.comparison, None)

    def _claim(
        self,
        comparison: Comparison,
        slot: datetime,
        taken: list[Claim],
        *,
        rerun: bool,
    ) -> None:
        """Claim the slot, and append the claim to ``taken``. If that is impossible, append nothing.

        The claim is not returned, because an interrupt could come before the caller has it.
        """
        now = self.clock.now()
        # If an interrupt came before the claim is in ``taken``, nobody would release the claim.
        with interrupts_held():
            claim = self.store.runs.claim(
                comparison.name,
                slot,
                owner=self.owner,
                now=now,
                until=now + comparison.measuring.deadline + STORING_TIME,
                config_hash=comparison.config_hash,
                rerun=rerun,
            )
            if claim is not None:
                taken.append(claim)
                self.claims[claim.run_id] = claim

    def _run(
        self,
        watched: WatchedComparison,
        claim: Claim,
        receivers: tuple[str, ...],
        judged_at: Clock,
    ) -> RunResult | None:
        """Measure, store and publish the claimed run. Returns what `run` returns.

        An error of the sources or of the output becomes the result of a failed run.
        """
        logged: dict[str, object] = {
            "comparison": claim.comparison,
            "slot": format_instant(claim.slot),
            "attempt": claim.attempt,
        }
        if claim.attempt == 1 or not claim.keeps_earlier:
            # A later attempt gets its final id only when it is stored, so it is not logged before.
            logged["run"] = claim.run_id
        with (
            structlog.contextvars.bound_contextvars(**logged),
            closing(RunScores(_open_spool)) as scores,
        ):
            for ping in self.pings:
                ping.run_started(claim)
            memory = self.call_with_retries(partial(self._remember, watched.comparison, claim))
            for sentence in memory.unreadable:
                log.warning("part of the history was not read", reason=sentence)
            try:
                measured = self._measure(watched, claim, memory, judged_at, scores)
                result = self._end(measured, receivers)
            except (OutputError, _NotMeasuredError) as error:
                failed = failed_result(
                    watched.comparison, claim, memory, judged_at, error_text=str(error)
                )
                result = self._end(failed, receivers)
            if watched.answers is not None:
                watched.answers.run_stored(claim.slot, claim.comparison)
            return result

    def _keep_progress(self, claim: Claim, pull: PullProgress) -> None:
        """Keep how far a pull of the run is, for pages. Every `_LOGGED_S` seconds also log it."""
        if claim.run_id not in self.claims:  # the run was abandoned
            return
        pulls = self.progress.setdefault(claim.comparison, {})
        before = pulls.get(pull.what)
        pulls[pull.what] = pull
        before_s = 0.0 if before is None else before.elapsed_s
        # Whether a full multiple of `_LOGGED_S` lies between the two times.
        if pull.elapsed_s // _LOGGED_S > before_s // _LOGGED_S:
            log.info(
                "pull under way",
                comparison=claim.comparison,
                slot=format_instant(claim.slot),
                pull=pull.what,
                progress=pull.words,
            )
        self.on_progress(claim.comparison, pull)

    def _end(self, result: RunResult, receivers: tuple[str, ...]) -> RunResult | None:
        """Store and publish the result. Returns None if another process has taken over the claim.

        If this run is not ok but the slot has an earlier ok run, the earlier run is kept.
        """
        result = replace(result, finished_at=self.clock.now())
        if result.claim.has_ok_run and result.status is not RunStatus.OK:
            self.call_with_retries(partial(self.store.runs.release, result.claim))
            reason = f"{result.reason}; the earlier run of the slot is kept"
            result = replace(result, reason=reason, states=(), transitions=())
            self._publish(result)
            return result
        number = self.call_with_retries(
            partial(self.store.runs.finish, result, receivers=receivers)
        )
        if number is None:
            log.warning("result dropped: the claim was taken over", status=result.status)
            return None
        with structlog.contextvars.bound_contextvars(run=number):
            self._publish(result)
        return result

    def _give_back(self, claim: Claim) -> None:
        """Release the claim. An error of the database is only logged, because the claim expires."""
        try:
            with interrupts_held():
                self.store.runs.release(claim)
        except DatabaseError as error:
            log.warning(
                "slot not released; it is free when the claim expires",
                until=format_instant(claim.until),
                reason=str(error),
            )

    def give_back_all(self) -> None:
        """Release the slots of runs at work, because the process ends."""
        for claim in list(self.claims.values()):
            log.warning(
                "slot released: its run did not end in time",
                comparison=claim.comparison,
                slot=format_instant(claim.slot),
            )
            self._give_back(claim)

    def _remember(self, comparison: Comparison, claim: Claim) -> Memory:
        """Read what the run needs from earlier runs, and from the alerts."""
        request = memory_request(comparison, claim.slot)
        memory = self.store.history.memory_of(request)
        installation = self.store.alerts.installation(create=True)
        unmatched = self._silences.unmatched(comparison, memory.states, self.comparisons)
        return replace(memory, installation=installation, unmatched=unmatched)

    def _measure(
        self,
        watched: WatchedComparison,
        claim: Claim,
        memory: Memory,
        clock: Clock,
        scores: RunScores,
    ) -> RunResult:
        """Measure in a thread. Raises `_NotMeasuredError` if the thread hangs or has a bug.

        Nobody waits for a thread that hangs, but the sources stay locked until it ends.
        """
        sources = replace(watched.sources, on_progress=partial(self._keep_progress, claim))
        if watched.answers is not None:
            sources = replace(sources, answers_path=watched.answers.path_start)

        def measure() -> RunResult:
            with watched.in_use:
                return execute(watched.comparison, sources, claim, memory, clock, scores)

        deadline = watched.comparison.measuring.deadline
        limit = deadline + timedelta(seconds=FINISHING_S)
        try:
            return call_in_time(measure, limit, name=f"run-{claim.comparison}")
        except OutputError:
            raise
        except OverdueError:
            self._leave_behind(claim.comparison)
            raise _NotMeasuredError(
                f"the run did not end within its deadline of {format_duration(deadline)} plus "
                f"{FINISHING_S:g} s: its work was left behind"
            ) from None
        # A bug makes the run fail. The failed run is stored, and its alert fires.
        except Exception as error:
            log.exception("run failed because of a bug")
            raise _NotMeasuredError(
                f"internal error: {describe_fault(error)}: please report it"
            ) from None

    def _leave_behind(self, comparison: str) -> None:
        """Count a run that hangs, and open its sources again, because it still uses them."""
        self.left_behind += 1
        log.error("run hung; left behind", comparison=comparison, so_far=self.left_behind)
        if self.publisher is not None:
            self.publisher.count("watchdog_restarts_total", "run")
        self.renew_sources(comparison)

    def _ping_end(self, claim: Claim, failure: str | None) -> None:
        for ping in self.pings:
            ping.run_finished(claim, failure)

    def call_with_retries(self, call: Callable[[], _T]) -> _T:
        """Call the function. If the database does not answer, retry for ``patience_s`` seconds."""

        def may_pass(error: Exception) -> bool:
            return isinstance(error, DatabaseError) and not error.permanent

        for attempt in stamina.retry_context(
            on=may_pass,
            attempts=None,
            timeout=self.patience_s,
            wait_max=20.0,
        ):
            # An interrupted transaction would keep its lock, and then no slot could be released.
            with attempt, interrupts_held():
                return call()
        raise AssertionError  # pragma: no cover - the context raises the last error

    def _publish(self, result: RunResult) -> None:
        """Log the result, export its metrics, and send the pings of its end."""
        write = log.info
        failure = None
        if result.status is not RunStatus.OK:
            write = log.warning
            failure = f"{result.status}: {result.reason}"
        write(
            "run finished",
            status=result.status,
            reason=result.reason,
            paired=result.coverage.all.paired if result.coverage else 0,
            gap_s=result.gap_s,
        )
        for transition in result.transitions:
            log.warning(
                "alert changed",
                to=transition.to_state,
                alert=transition.alert,
                segment=transition.segment,
                reason=transition.reason,
            )
        if self.publisher is not None:
            self.publisher.run_finished(result)
        self._ping_end(result.claim, failure)
