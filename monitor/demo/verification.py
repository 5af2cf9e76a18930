"""Whether exactly the expected story happened, for --fast. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from monitor.demo.simulation import DemoStatus
from monitor.demo.story import Chapter
from monitor.demo.workspace import DEMO_COMPARISON, EXPECTED_ALERTS
from monitor.model import RunStatus, State

GAUGES = ("rankwatch_similarity_mean", "rankwatch_alert_state", "rankwatch_run_status")


def is_over(status: DemoStatus) -> bool:
    """Whether nothing more is to come: healed, all quiet, and on-call was notified of every start and end."""
    announced = sum(1 for transition in status.seen.transitions if transition.is_announced)
    return status.scene.chapter is Chapter.HEALED and not status.seen.firing and len(status.received) >= announced


def unmet_expectations(status: DemoStatus, exposition: str) -> tuple[str, ...]:
    """What was expected and did not happen, or happened and was not expected; a sentence each.

    ``exposition`` is what /metrics answered, empty when it did not.
    """
    return (*_runs(status), *_alerts(status), *_received(status), *_gauges(exposition))


def _runs(status: DemoStatus) -> Iterator[str]:
    # A run that reached too few users in time is no fault of the story: an overloaded machine does that.
    failed = [run for run in status.seen.runs if run.status is RunStatus.FAILED]
    if failed:
        yield f"{len(failed)} runs failed, the last for this reason: {failed[0].reason or 'none given'}."
    if not any(run.status is RunStatus.OK for run in status.seen.runs):
        yield "No run ended ok."


def _alerts(status: DemoStatus) -> Iterator[str]:
    began = {each.chapter: each.at for each in status.chapters}
    changes = status.seen.transitions
    for alert in sorted(EXPECTED_ALERTS):
        mine = [change for change in changes if (change.alert, change.segment) == alert]
        fired = [change.at for change in mine if change.is_start]
        resolved = [change.at for change in mine if change.from_state is State.FIRING]
        yield from _once(alert, "fired", "the fault was let in", fired, began.get(Chapter.BROKEN))
        yield from _once(alert, "resolved", "it was repaired", resolved, began.get(Chapter.HEALED))
    for other, segment in sorted({(change.alert, change.segment) for change in changes if change.is_start} - EXPECTED_ALERTS):
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


def _received(status: DemoStatus) -> Iterator[str]:
    got = {(each.alert, each.segment, each.status) for each in status.received}
    for alert, segment in sorted(EXPECTED_ALERTS):
        for reported in ("firing", "resolved"):
            if (alert, segment, reported) not in got:
                yield f"On-call was never notified that {alert} {segment} is {reported}."


def _gauges(exposition: str) -> Iterator[str]:
    for gauge in GAUGES:
        label = f'comparison="{DEMO_COMPARISON}"'
        if not any(line.startswith(gauge + "{") and label in line for line in exposition.splitlines()):
            yield f"/metrics shows no {gauge} of {DEMO_COMPARISON}."
