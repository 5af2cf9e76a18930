"""Slots that went by without a run, counted by reason when the next one is chosen."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import published
from factories import MINUTE, HeldClock, comparison
from monitor.service.daemon.slot_choice import SlotChooser
from monitor.service.runner import Runner, Watched
from monitor.settings.schedule import Every

START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass
class Stored:
    """Runs of which the last slot alone is known."""

    last: datetime | None = START

    @property
    def history(self) -> "Stored":
        return self

    def runs(self, **_: object) -> list[Any]:
        return [] if self.last is None else [published.run(slot=self.last)]


def chooser(store: Stored) -> SlotChooser:
    only: Any = store
    return SlotChooser(runner=Runner(store=only, clock=HeldClock(START + 4 * MINUTE + timedelta(seconds=3))))


def watched() -> Watched:
    nothing: Any = None
    return Watched(comparison=comparison(name="feed"), arms=nothing, schedule=Every(MINUTE))


@pytest.mark.parametrize(
    ("due_s", "overlapped", "counts"),
    [
        (None, (), {"missed": 3}),
        (None, (0,), {"missed": 3}),
        (None, (1, 2), {"overlap": 2, "missed": 1}),
        (None, (1, 2, 3, 4), {"overlap": 3}),
        (4 * 60 + 1, (), {"missed": 3}),
        (2 * 60 + 59, (), {"missed": 1, "busy": 2}),
        (60, (), {"busy": 3}),
        (2 * 60 + 30, (1, 2), {"overlap": 2, "busy": 1}),
    ],
)
def test_slots_passed_while_a_run_was_at_work_are_overlap_while_one_waited_for_a_place_busy_and_others_missed(
    due_s: int | None, overlapped: tuple[int, ...], counts: dict[str, int]
) -> None:
    slots = chooser(Stored())
    slots.note_overlap("feed", [START + minutes * MINUTE for minutes in overlapped])
    slots.note_overlap("other", [START + 3 * MINUTE])
    if due_s is not None:
        slots.note_due("feed", START + timedelta(seconds=due_s))
    choice = slots.choose(watched())
    assert (choice.slot, choice.is_rerun, choice.skipped) == (START + 4 * MINUTE, False, counts)
    assert slots.choose(watched()).skipped == {"missed": 3}  # what was noted counts once


@pytest.mark.parametrize("last", [None, START + 3 * MINUTE, START + 4 * MINUTE])
def test_no_slot_passed_means_no_count(last: datetime | None) -> None:
    assert chooser(Stored(last)).choose(watched()).skipped == {}
