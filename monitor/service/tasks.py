"""What the daemon does, by the names of its timetable: those of comparisons, and with a dash in front what is beside runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from monitor.ports import Receiver
from monitor.service.running import STORING
from monitor.service.wiring import Wiring
from monitor.settings import Schedule

REFRESH = timedelta(seconds=15)
"""How often what other daemons stored, the outbox and abandoned runs are looked up."""
PRUNING = "-prune"
PRUNE = timedelta(hours=1)
FIRST_PRUNE = timedelta(minutes=5)
"""How long after the start, or after the lead was taken, old rows are first deleted: the first round of runs goes before."""
SIZING = "-size"
BACKFILL = timedelta(minutes=10)
"""How often relevance is looked for that may have arrived since, beside after each run."""
PROBE = timedelta(seconds=10)
"""How often the database is asked whether it works, and how often one that is away at the start is tried."""
TELL = timedelta(seconds=5)
"""How often it is looked whether a receiver has to hear that the database is away."""
WAITING = timedelta(minutes=4)
"""How long a run may wait for a database that comes and goes, beside its deadline and the time to store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something to do when it is due: at each slot of a schedule, or every so often.

    ``limit``: after so long at work it hangs; ``is_bounded``: few of these at a time. ``is_wanted`` is asked when it is due,
    and answers at once: where it says no, the time is passed over. ``first``: how soon it comes the first time, where that is
    not after the time it comes round in.
    """

    call: Callable[[], object]
    when: Schedule | timedelta
    limit: timedelta
    is_bounded: bool = False
    is_wanted: Callable[[], bool] = lambda: True
    first: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """What tasks call: the first two with the name of a comparison."""

    tick: Callable[[str], object]
    backfill: Callable[[str], object]
    has_news: Callable[[Receiver], bool]
    tell: Callable[[Receiver], object]
    refresh: Callable[[], object]
    prune: Callable[[], object]
    size: Callable[[], object]
    probe: Callable[[], object]
    renew_loops: Callable[[], object]
    open: Callable[[], object]


def tasks_of(wiring: Wiring, calls: Calls, *, has_database: bool, leads: bool) -> Mapping[str, Task]:
    """All that is to be done with this wiring; without a database only what needs none, as a standby only what looks at it."""
    minute = timedelta(minutes=1)
    tasks = {
        f"-tell-{each.name}": Task(
            call=partial(calls.tell, each), when=TELL, limit=5 * minute, is_wanted=partial(calls.has_news, each)
        )
        for each in wiring.receivers
    }
    if not has_database:
        return tasks | {"-open": Task(call=calls.open, when=PROBE, limit=2 * minute)}
    tasks |= {
        "-probe": Task(call=calls.probe, when=PROBE, limit=minute),
        "-refresh": Task(call=calls.refresh, when=REFRESH, limit=2 * minute),
    }
    return tasks | _of_leader(wiring, calls) if leads else tasks


def _of_leader(wiring: Wiring, calls: Calls) -> dict[str, Task]:
    tasks = {
        PRUNING: Task(call=calls.prune, when=PRUNE, limit=6 * PRUNE, first=FIRST_PRUNE),
        SIZING: Task(call=calls.size, when=PRUNE, limit=PRUNE),
        "-loops": Task(call=calls.renew_loops, when=REFRESH, limit=timedelta(minutes=2)),
    }
    for name, watched in wiring.watched.items():
        deadline = watched.comparison.deadline
        run = partial(calls.tick, name)
        tasks[name] = Task(call=run, when=watched.schedule, limit=deadline + STORING + WAITING, is_bounded=True)
        if watched.arms.relevance is not None:
            fill = partial(calls.backfill, name)
            tasks[f"-fill-{name}"] = Task(call=fill, when=BACKFILL, limit=deadline + PRUNE, is_bounded=True)
    return tasks
