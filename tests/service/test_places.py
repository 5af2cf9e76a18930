"""Which runs get a place, and what hanging ones cost the others."""

import threading
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

import published
from monitor.service.daemon.places import Places, Ticket, next_runs, took_whole_deadline
from servers.daemon import wait_for


def ticket(name: str = "healthy", *, is_suspect: bool = False, begun_s: float | None = None) -> Ticket:
    return Ticket(name=name, is_suspect=is_suspect, slow_after_s=12.0, begun_s=begun_s)


def tickets(kinds: str) -> list[Ticket]:
    """``h`` is healthy, ``s`` suspect."""
    return [ticket(is_suspect=kind == "s") for kind in kinds]


@pytest.mark.parametrize(
    ("queue", "held", "most", "admitted"),
    [
        ("hhh", "", 2, [0, 1]),
        ("hhh", "h", 2, [0]),
        ("hh", "hh", 2, []),
        ("h", "hhh", 2, []),  # a reload lowered the number
        ("sssh", "", 1, [0, 3]),
        ("sh", "s", 1, [1]),
        ("ssss", "hh", 8, [0, 1]),
        ("ssss", "s", 8, [0]),
        ("hs", "hhhhhhhhss", 8, []),
        ("", "", 8, []),
    ],
)
def test_healthy_runs_and_those_after_a_hang_have_places_of_their_own(
    queue: str, held: str, most: int, admitted: list[int]
) -> None:
    waiting = tickets(queue)
    assert next_runs(waiting, tickets(held), most, now_s=0.0) == [waiting[place] for place in admitted]


def test_what_is_at_work_for_long_keeps_nobody_waiting_any_more() -> None:
    held, waiting = [ticket(begun_s=100.0), ticket(begun_s=101.0)], tickets("hh")
    assert next_runs(waiting, held, 2, now_s=111.9) == []
    assert next_runs(waiting, held, 2, now_s=112.0) == waiting[:1]
    assert next_runs(waiting, held, 2, now_s=113.0) == waiting
    slow_suspect = [ticket(is_suspect=True, begun_s=0.0)]
    assert next_runs(tickets("s"), slow_suspect, 2, now_s=99.0) == []


@dataclass
class Simulation:
    """Comparisons that fall due together every 30 s and have 24 s; each run's end decides how its next one is admitted."""

    healthy: int
    hanging: int
    most: int
    now_s: float = 0.0
    ran: dict[str, list[float]] = field(default_factory=dict)

    def run(self, rounds: int) -> None:
        queue: list[Ticket] = []
        held: list[Ticket] = []
        hung: set[str] = set()
        names = [f"hanging-{n}" for n in range(self.hanging)] + [f"healthy-{n}" for n in range(self.healthy)]
        for tick in range(rounds * 60):
            self.now_s = tick / 2
            for each in [one for one in held if self.now_s - (one.begun_s or 0.0) >= (24 if "hang" in one.name else 0.5)]:
                held.remove(each)
                hung |= {each.name} if "hang" in each.name else set()
            busy = {each.name for each in (*queue, *held)}
            due = names if tick % 60 == 0 else []
            queue += [ticket(name, is_suspect=name in hung) for name in due if name not in busy]
            for each in next_runs(queue, held, self.most, self.now_s):
                each.begun_s = self.now_s
                queue.remove(each)
                held.append(each)
                self.ran.setdefault(each.name, []).append(self.now_s)


def test_twelve_that_hang_cost_no_healthy_one_a_slot_not_even_when_they_begin_to() -> None:
    world = Simulation(healthy=100, hanging=12, most=8)
    world.run(rounds=20)
    slots = {name: [int(begun // 30) for begun in ran] for name, ran in world.ran.items()}
    assert all(slots[f"healthy-{n}"] == list(range(20)) for n in range(100))
    assert max(begun % 30 for name, ran in world.ran.items() if "healthy" in name for begun in ran if begun >= 60) <= 7
    # They run in turn, so that one which recovers is healthy again soon.
    assert all(len(world.ran[f"hanging-{n}"]) >= 4 for n in range(12))


def test_a_run_that_took_its_whole_deadline_is_expected_to_hang_again() -> None:
    run, deadline = published.run(), timedelta(seconds=4)
    assert took_whole_deadline(run, deadline)
    assert not took_whole_deadline(run, deadline + timedelta(microseconds=1))
    assert not took_whole_deadline(published.run(finished_at=None), deadline)


def taken(held: Places, one: Ticket) -> threading.Thread:
    thread = threading.Thread(target=held.take, args=(one,), daemon=True)
    thread.start()
    return thread


def test_who_waits_is_counted_and_begins_when_a_place_is_free() -> None:
    now_s = [0.0]
    held = Places(lambda: 1, lambda: now_s[0])
    first, second, third = (ticket(name) for name in ("first", "second", "third"))
    held.take(first)
    waiting = [taken(held, second)]
    wait_for(lambda: held.waiting == 1, "the second")
    waiting.append(taken(held, third))
    wait_for(lambda: held.waiting == 2, "both")

    held.give_back(first)
    waiting[0].join(60)
    assert (second.begun_s, held.waiting) == (0.0, 1)

    now_s[0] = 12.0
    held.look_again()
    waiting[1].join(60)
    assert (third.begun_s, held.waiting) == (12.0, 0)
