"""After a run its comparison alone is read and published; what others stored is found by itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

import published
from factories import HeldClock
from monitor.errors import DatabaseError
from monitor.model.runs import LatestRun, RunStatus, Watermark
from monitor.service.daemon.jobs import ROUNDS, LatestRuns

AWAY = DatabaseError("away", permanent=False)
NAMES = tuple(f"c{number:02}" for number in range(40))


@dataclass
class Stored:
    """A store that notes what is read of it, and a publisher that notes what is shown."""

    runs: dict[str, LatestRun] = field(default_factory=lambda: {name: published.named(name) for name in NAMES})
    read: list[str] = field(default_factory=list)
    shown: tuple[LatestRun, ...] = ()
    before_reading: Any = None

    @property
    def history(self) -> "Stored":
        return self

    def changes(self, comparisons: Sequence[str], seen: Watermark, *, until: datetime) -> tuple[frozenset[str], Watermark]:
        marks = {name: self.runs[name].run.mark for name in comparisons if name in self.runs}
        changed = frozenset(name for name, mark in marks.items() if mark != seen.runs.get(name))
        return changed, Watermark(runs=marks, transition=1)

    def latest(self, comparisons: Sequence[str], *, until: datetime) -> tuple[LatestRun, ...]:
        found = tuple(self.runs[name] for name in comparisons if name in self.runs)
        if self.before_reading is not None:
            act, self.before_reading = self.before_reading, None
            act()
        self.read += comparisons
        return found

    def publish(self, latest: Sequence[LatestRun]) -> None:
        self.shown = tuple(latest)


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def latest(stored: Stored) -> LatestRuns:
    both: Any = stored
    made = LatestRuns(both, both, HeldClock())
    assert made.all is None
    made.refresh(NAMES)
    assert sorted(stored.read) == list(NAMES)
    stored.read.clear()
    return made


def status(stored: Stored, name: str) -> RunStatus:
    return next(one.run.status for one in stored.shown if one.run.comparison == name)


def test_after_a_run_one_comparison_is_read_and_the_others_stay_the_same_objects(stored: Stored, latest: LatestRuns) -> None:
    before = {one.run.comparison: one for one in stored.shown}
    stored.runs["c07"] = published.named("c07", RunStatus.FAILED)
    latest.read("c07")
    assert stored.read == ["c07"]
    assert [one.run.comparison for one in stored.shown] == list(NAMES)
    assert {one.run.comparison for one in stored.shown if one is not before[one.run.comparison]} == {"c07"}
    assert latest.all == stored.shown
    latest.refresh(NAMES)
    assert stored.read.count("c07") == 1


def test_a_refresh_reads_what_changed_and_in_twenty_everything_once(stored: Stored, latest: LatestRuns) -> None:
    stored.runs["c07"] = published.named("c07", RunStatus.FAILED)
    latest.refresh(NAMES)
    assert status(stored, "c07") is RunStatus.FAILED
    assert len(stored.read) <= 1 + len(NAMES) // ROUNDS
    for _ in range(ROUNDS - 1):
        latest.refresh(NAMES)
    assert set(stored.read) == set(NAMES)
    assert len(stored.read) <= len(NAMES) + 1


def test_what_is_read_again_and_is_equal_stays_the_same_object(stored: Stored, latest: LatestRuns) -> None:
    before = latest.of("c07")
    stored.runs["c07"] = published.named("c07")
    latest.read("c07")
    assert latest.of("c07") is before


def test_a_read_that_began_before_another_one_ended_puts_nothing_older_in_its_place(stored: Stored, latest: LatestRuns) -> None:
    def run_meanwhile() -> None:
        stored.runs["c07"] = published.named("c07", RunStatus.FAILED)
        latest.read("c07")

    stored.runs["c07"], stored.before_reading = published.named("c07", RunStatus.INSUFFICIENT), run_meanwhile
    latest.refresh(NAMES)
    assert status(stored, "c07") is RunStatus.FAILED


def test_a_comparison_that_was_removed_is_not_brought_back_and_one_that_was_added_is_read(
    stored: Stored, latest: LatestRuns
) -> None:
    stored.runs["new"] = published.named("new")
    latest.refresh((*NAMES[1:], "new"))
    latest.read("c00")
    assert [one.run.comparison for one in stored.shown] == [*NAMES[1:], "new"]


def test_what_could_not_be_read_is_read_by_the_next_refresh(stored: Stored, latest: LatestRuns) -> None:
    def fail() -> None:
        raise AWAY

    stored.runs["c07"], stored.before_reading = published.named("c07", RunStatus.FAILED), fail
    with pytest.raises(DatabaseError):
        latest.refresh(NAMES)
    latest.refresh(NAMES)
    assert status(stored, "c07") is RunStatus.FAILED
