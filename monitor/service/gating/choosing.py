"""Which stored runs a gate judges, and why others are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from monitor.model import Comparison, Run, RunStatus
from monitor.ports import Store
from monitor.service.gating.question import Question

_LOOKED_THROUGH = 100_000


class LeftOut(StrEnum):
    """Why a finished run is not judged. A closed set, each with its words."""

    OTHER_CONFIGURATION = "other_configuration"
    INSUFFICIENT = "insufficient"
    FAILED = "failed"
    ABANDONED = "abandoned"
    ASKED_EVERYBODY = "asked_everybody"
    NO_SCORES = "no_scores"
    NOT_THE_NEWEST = "not_the_newest"


WORDS = {
    LeftOut.OTHER_CONFIGURATION: "measured under another configuration",
    LeftOut.INSUFFICIENT: "insufficient",
    LeftOut.FAILED: "failed",
    LeftOut.ABANDONED: "abandoned",
    LeftOut.ASKED_EVERYBODY: "had fewer users than the sample holds, so that nobody was drawn",
    LeftOut.NO_SCORES: "stored without scores of what is judged",
    LeftOut.NOT_THE_NEWEST: "older, and asked the same users",
}

_BY_STATUS = {
    RunStatus.INSUFFICIENT: LeftOut.INSUFFICIENT,
    RunStatus.FAILED: LeftOut.FAILED,
    RunStatus.ABANDONED: LeftOut.ABANDONED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Runs to judge, oldest first, and how many others there are by reason; ``trouble``: why the newest bad run was bad."""

    runs: tuple[Run, ...]
    left_out: Mapping[LeftOut, int]
    trouble: str | None


def choose(store: Store, question: Question) -> Chosen:
    """Finished runs of the period: ok ones of this configuration that drew their users are judged."""
    found = store.runs(comparison=question.comparison.name, limit=_LOOKED_THROUGH)
    finished = [
        run
        for run in reversed(found)
        if run.status is not RunStatus.RUNNING and (question.since is None or run.slot >= question.since)
    ]
    reasons = [_reason(run, question.comparison) for run in finished]
    return Chosen(
        runs=tuple(run for run, reason in zip(finished, reasons, strict=True) if reason is None),
        left_out=Counter(reason for reason in reasons if reason is not None),
        trouble=_trouble(finished),
    )


def _reason(run: Run, comparison: Comparison) -> LeftOut | None:
    if run.config_hash != comparison.config_hash:
        return LeftOut.OTHER_CONFIGURATION
    if run.status is not RunStatus.OK:
        return _BY_STATUS[run.status]
    sample = comparison.sample
    if sample is not None and (run.asked or 0) < sample.fixed + sample.rotating:
        return LeftOut.ASKED_EVERYBODY
    return None


def _trouble(finished: Sequence[Run]) -> str | None:
    return next((run.reason for run in reversed(finished) if run.status in _BY_STATUS and run.reason), None)
