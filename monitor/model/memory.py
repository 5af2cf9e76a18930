"""What one run needs of the past: how much of it, and the value that holds it."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.alerts import AlertState, Rule
from monitor.model.explanation import Split
from monitor.model.runs import KeptLists, PastRun


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryScope:
    """How much of the past a run of one configuration needs.

    ``rules``: those that learn from ``past_runs`` earlier runs, none where no earlier run is needed; ``splits``: of how many
    healthy runs; ``last_lists``: whether anything looks back at the lists of the last run.
    """

    config_hash: str
    rules: tuple[Rule, ...] = ()
    past_runs: int = 0
    splits: int = 0
    last_lists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The past as one run needs it.

    ``states``: alert states of the comparison as stored. ``past``: its ok runs of this configuration, oldest first. ``splits``
    of the healthy ones of them, oldest first. ``last_lists``: lists of its last run. ``damaged``: what could not be read and is
    therefore left out, in words.
    """

    states: tuple[AlertState, ...] = ()
    past: tuple[PastRun, ...] = ()
    splits: tuple[Split, ...] = ()
    last_lists: KeptLists | None = None
    damaged: tuple[str, ...] = ()
