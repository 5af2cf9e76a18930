"""Whether exactly the expected story happened, for --fast. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.demo.http_servers import ReceivedAlert
from monitor.demo.simulation import ChapterStart, DemoStatus, NoteKind, StoreSnapshot
from monitor.demo.story import Chapter
from monitor.demo.workspace import DEMO_COMPARISON, EXPECTED_ALERTS
from monitor.model import RunStatus, State

GAUGES = ("rankwatch_similarity_mean", "rankwatch_alert_state", "rankwatch_run_status")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRecord:
    """All that is known at the end. ``exposition``: what /metrics answered, empty when it did not."""

    chapters: Sequence[ChapterStart]
    seen: StoreSnapshot
    received: Sequence[ReceivedAlert]
    exposition: str


def is_over(status: DemoStatus) -> bool:
    """Whether nothing more is to come: healed, all quiet, and on-call was notified of every start and end."""
    announced = sum(1 for transition in status.seen.transitions if transition.is_announced)
    notified = sum(1 for note in status.notes if note.kind in (NoteKind.NOTIFIED, NoteKind.WRONG))
    return status.scene.chapter is Chapter.HEALED and not status.seen.firing and notified >= announced


def unmet_expectations(record: DemoRecord) -> tuple[str, ...]:
    """What was expected and did not happen, or happened and was not expected; a sentence each."""
    return (*_runs(record.seen), *_alerts(record), *_received(record), *_gauges(record.exposition))


def _runs(seen: StoreSnapshot) -> Iterator[str]:
    # A run that reached too few users in time is no fault of the story: an overloaded machine does that.
    failed = [run for run in seen.runs if run.status is RunStatus.FAILED]
    if failed:
        yield f"{len(failed)} runs failed, the last for this reason: {failed[0].reason or 'none given'}."
    if not any(run.status is RunStatus.OK for run in seen.runs):
        yield "No run ended ok."


def _alerts(record: DemoRecord) -> Iterator[str]:
    began = {each.chapter: each.at for each in record.chapters}
    for alert in sorted(EXPECTED_ALERTS):
        mine = [transition for transition in record.seen.transitions if (transition.alert, transition.segment) == alert]
        fired = [transition.at for transition in mine if transition.is_start]
        resolved = [transition.at for transition in mine if transition.from_state is State.FIRING]
        yield from _once(alert, "fired", "the fault was let in", fired, began.get(Chapter.BROKEN))
        yield from _once(alert, "resolved", "it was repaired", resolved, began.get(Chapter.HEALED))
    started = {(transition.alert, transition.segment) for transition in record.seen.transitions if transition.is_start}
    for other, segment in sorted(started - EXPECTED_ALERTS):
        yield f"{other} {segment} fired, though nothing was wrong there."


def _once(alert: tuple[str, str], did: str, cause: str, at: list[datetime], after: datetime | None) -> Iterator[str]:
    """An alert must have ``did`` exactly once, and not before its cause."""
    name = " ".join(alert)
    if not at:
        yield f"{name} never {did}" + ("." if after else f", for {cause.replace('was', 'was never', 1)}.")
    elif len(at) > 1:
        yield f"{name} {did} {len(at)} times instead of once."
    elif after is None or at[0] < after:
        yield f"{name} {did} before {cause}."


def _received(record: DemoRecord) -> Iterator[str]:
    unsigned = sum(1 for each in record.received if not each.is_signed)
    if unsigned:
        yield f"{unsigned} messages reached on-call without a valid signature."
    got = Counter((each.status, each.alert, each.segment) for each in record.received if each.is_signed)
    for alert, segment in sorted(EXPECTED_ALERTS):
        yield from (
            f"On-call was never notified that {alert} {segment} is {status}."
            for status in ("firing", "resolved")
            if not got[status, alert, segment]
        )


def _gauges(exposition: str) -> Iterator[str]:
    for gauge in GAUGES:
        label = f'comparison="{DEMO_COMPARISON}"'
        if not any(line.startswith(gauge + "{") and label in line for line in exposition.splitlines()):
            yield f"/metrics shows no {gauge} of {DEMO_COMPARISON}."
