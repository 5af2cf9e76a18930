"""The demo as plain lines, for a pipe or a log: one a run, one a note, each printed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from monitor.demo.configuration import METRICS
from monitor.demo.status import DemoStatus, Note, NoteKind
from monitor.model import ALL, Run, RunStatus

_LABELS = {
    NoteKind.STORY: "STORY",
    NoteKind.FIRING: "FIRING",
    NoteKind.RESOLVED: "RESOLVED",
    NoteKind.TOLD: "TOLD",
    NoteKind.WRONG: "WRONG",
}


@dataclass(slots=True)
class Lines:
    """Remembers what was printed."""

    _runs: set[datetime] = field(default_factory=set)
    _notes: set[Note] = field(default_factory=set)
    _is_begun: bool = False

    def new(self, status: DemoStatus) -> list[str]:
        """Lines for what this status has and no earlier one had, in the order in which it happened."""
        head = [] if self._is_begun else list(_head(status))
        self._is_begun = True
        timed = [*self._new_notes(status), *self._new_runs(status)]
        return head + [f"{_clock(at)} {text}" for at, text in sorted(timed, key=lambda one: one[0])]

    def _new_notes(self, status: DemoStatus) -> Iterator[tuple[datetime, str]]:
        for note in status.notes:
            if note not in self._notes:
                self._notes.add(note)
                yield note.at, f"{_LABELS[note.kind]:<8} {note.text}"

    def _new_runs(self, status: DemoStatus) -> Iterator[tuple[datetime, str]]:
        for run in status.seen.runs:
            # A run that ended between two queries of one look has no means yet: it is printed at the next look.
            is_whole = run.status is not RunStatus.OK or run.slot in status.seen.means
            if run.finished_at is not None and is_whole and run.slot not in self._runs:
                self._runs.add(run.slot)
                yield run.finished_at, _run_text(run, status)


def _head(status: DemoStatus) -> Iterator[str]:
    yield f"Configuration {status.place.config}, database {status.place.database}, log {status.place.log}"
    yield f"Metrics {status.metrics_url}"


def _run_text(run: Run, status: DemoStatus) -> str:
    means = status.seen.means.get(run.slot, {})
    values = [f"{metric} {value:.3f}" for metric in METRICS if (value := means.get((ALL, metric))) is not None]
    reason = [run.reason] if run.reason else []
    return " ".join([f"RUN      {run.status} paired {run.paired or 0}/{run.asked or 0}", *values, *reason])


def _clock(at: datetime) -> str:
    return at.astimezone().strftime("%H:%M:%S")
