"""Whether exactly the expected story happened, for --fast. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from monitor.demo.simulation import DemoStatus, firing_count
from monitor.demo.story import Chapter
from monitor.demo.workspace import EXPECTED_ALERTS
from monitor.model import RunStatus, State

EXPECTED = {(*alert, "firing", Chapter.BROKEN) for alert in EXPECTED_ALERTS} | {
    (*alert, "resolved", Chapter.HEALED) for alert in EXPECTED_ALERTS
}
"""What should happen once, and nothing else: alert, segment, what becomes of it, and while the candidate is how."""


def is_over(status: DemoStatus) -> bool:
    """Whether nothing more is to come: healed, all quiet, and on-call was notified of every start and end."""
    announced = sum(transition.is_announced for transition in status.transitions)
    return status.scene.chapter is Chapter.HEALED and not firing_count(status.alerts) and len(status.received) >= announced


def unmet_expectations(status: DemoStatus) -> Iterator[str]:
    """What was expected and did not happen, or happened and was not expected; a sentence each."""
    # A run that reached too few users in time is no fault of the story: an overloaded machine does that.
    failed = [run for run in status.runs if run.status is RunStatus.FAILED]
    if failed:
        yield f"{len(failed)} runs failed, the last for this reason: {failed[0].reason or 'none given'}."
    if not any(run.status is RunStatus.OK for run in status.runs):
        yield "No run ended ok."
    happened = Counter(
        (change.alert, change.segment, "firing" if change.to_state is State.FIRING else "resolved", _chapter(status, change.at))
        for change in status.transitions
        if change.is_announced
    )
    for alert, segment, became, chapter in sorted(EXPECTED | happened.keys()):
        times = happened[alert, segment, became, chapter]
        if times != (expected := int((alert, segment, became, chapter) in EXPECTED)):
            yield f"{alert} {segment} became {became} {times} times while the candidate was {chapter}, expected {expected}."
    got = {(each.alert, each.segment, each.status) for each in status.received}
    for alert, segment, became, _ in sorted(EXPECTED):
        if (alert, segment, became) not in got:
            yield f"On-call was never notified that {alert} {segment} is {became}."


def _chapter(status: DemoStatus, at: datetime) -> Chapter:
    return [chapter for began, chapter in status.chapters if began <= at][-1]
