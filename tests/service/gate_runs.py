"""Stored runs for a gate to judge: whose users score what the test says, under a panel that is really drawn."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import factories
from factories import DAY, SLOT, HeldClock
from monitor.model.comparison import Comparison, SampleSize
from monitor.model.rankings import Coverage, CoverageRow, Panel, UserTable
from monitor.model.runs import KeptLists, RunStatus, Scores
from monitor.model.statistics import DerivedMetric, NoiseFloor
from monitor.sampling import draw
from monitor.service.gate import Certificate, judge_stored, make_question
from monitor.storage import SqlStore, open_store
from storage.worked import claimed, result

METRIC = "extended_tau"
OVER = DerivedMetric.OVER_FLOOR.of(METRIC)
Floats = npt.NDArray[np.float64]
Score = Callable[[list[str]], Floats]


def sampled(**changes: Any) -> Comparison:
    """A comparison with a noise floor and rotating users, of the configuration hash that `GateResult` stores."""
    base: dict[str, Any] = {
        "metrics": (METRIC, "rbo(p=0.9)"),
        "sample": SampleSize(fixed=20, rotating=200),
        "noise_floor": NoiseFloor.SERVE,
        "config_hash": "hash",
    }
    return factories.comparison(**(base | changes))


def people(count: int = 1000) -> UserTable:
    """Users u0000 and on, every fourth in DE and the others in UK."""
    names = [f"u{number:04}" for number in range(count)]
    country = pd.Categorical(["DE" if number % 4 == 0 else "UK" for number in range(count)])
    return UserTable(users=pd.Index(names, dtype="str"), segments={"country": country})


def constant(value: float) -> Score:
    return lambda names: np.full(len(names), value)


@dataclass
class Gated:
    """A store with runs of one comparison, one a day."""

    store: SqlStore
    comparison: Comparison
    clock: HeldClock = field(default_factory=HeldClock)
    users: UserTable = field(default_factory=people)
    day: int = 0

    def run(
        self,
        score: Score,
        *,
        without: Callable[[str], bool] = lambda _: False,
        series: str = OVER,
        keeps_lists: bool = False,
        **changes: Any,
    ) -> None:
        """Store the next day's run: the drawn users scored, but for those ``without``, who are missing."""
        slot = SLOT + self.day * DAY
        self.day += 1
        panel = draw(self.users, self.comparison, slot)
        names = [name for name in panel.users if not without(name)]
        scores = Scores(users=pd.Index(names, dtype="str"), by_metric={series: score(names)} if series else {})
        paired = set(names)
        rows = tuple(
            CoverageRow(
                segment=segment,
                asked=len(places),
                paired=sum(panel.users[place] in paired for place in places),
                reasons={},
            )
            for segment, places in panel.segments.items()
        )
        if keeps_lists:
            changes["lists"] = _lists(panel, names)
        hash_of_run = changes.pop("config_hash", self.comparison.config_hash)
        claim = claimed(self.store, slot, comparison=self.comparison.name, config_hash=hash_of_run)
        stored = result(claim, scores=scores, coverage=Coverage(rows=rows), config_hash=hash_of_run, summaries=(), **changes)
        assert self.store.runs.finish(stored, receivers=())

    def fail(self, reason: str = "candidate cannot be read") -> None:
        slot = SLOT + self.day * DAY
        self.day += 1
        claim = claimed(self.store, slot, comparison=self.comparison.name, config_hash="hash")
        failed = result(claim, status=RunStatus.FAILED, reason=reason, scores=None, coverage=None, summaries=(), evidence=())
        assert self.store.runs.finish(failed, receivers=())

    def ask(self, *, margin: float = 0.05, alpha: float = 0.01, **asked: Any) -> Certificate:
        question = make_question(
            {self.comparison.name: self.comparison}, self.comparison.name, margin=margin, alpha=alpha, **asked
        )
        return judge_stored(self.store.history, question, self.clock, lambda _: self.users)


def _lists(panel: Panel, names: list[str]) -> KeptLists:
    """One item each; segments that nobody was compared of are left out, as a run does."""
    lists = factories.rankings({name: ["i1"] for name in names})
    rows = {segment: np.flatnonzero(np.isin(names, panel.users[places])) for segment, places in panel.segments.items()}
    return KeptLists(baseline=lists, candidate=lists, segments={name: found for name, found in rows.items() if len(found)})


@contextmanager
def gated(folder: Path, **changes: Any) -> Iterator[Gated]:
    with closing(open_store(f"sqlite:///{folder}/rankwatch.db", create=True)) as store:
        yield Gated(store, sampled(**changes))


def figures(found: Certificate) -> Mapping[str, tuple[int, int, str]]:
    return {each.segment: (each.users, each.missing, each.verdict.value) for each in found.segments}
