"""The stored runs that a gate judges, why others are left out, and the drawn users of each by segment."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import numpy as np
import pandas as pd

from monitor.errors import InputError
from monitor.model.arrays import Floats, Rows
from monitor.model.comparison import Keep
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL, Panel, UserTable
from monitor.model.runs import Run, RunStatus
from monitor.ports import History
from monitor.sampling import draw, kept_among
from monitor.sequential.gate import Scale
from monitor.service.gate.question import Question

_LOOKED_THROUGH = 100_000

UsersAt = Callable[[datetime], UserTable]
"""The users that could be asked at a slot, with their segments."""


class LeftOut(StrEnum):
    """Why a finished run is not judged. A closed set, each with its words."""

    OTHER_CONFIGURATION = "other_configuration"
    INSUFFICIENT = "insufficient"
    FAILED = "failed"
    ABANDONED = "abandoned"
    ASKED_EVERYBODY = "asked_everybody"
    NO_SCORES = "no_scores"
    NOT_THE_NEWEST = "not_the_newest"


LEFT_OUT_TEXTS = {
    LeftOut.OTHER_CONFIGURATION: "measured under another configuration",
    LeftOut.INSUFFICIENT: "insufficient",
    LeftOut.FAILED: "failed",
    LeftOut.ABANDONED: "abandoned",
    LeftOut.ASKED_EVERYBODY: "had fewer users than the sample holds, so that nobody was drawn",
    LeftOut.NO_SCORES: "stored without scores of what is judged",
    LeftOut.NOT_THE_NEWEST: "older, and asked the same users",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """Runs to judge, oldest first, and how many others there are by reason.

    ``trouble``: why the newest bad run was bad.
    """

    runs: tuple[Run, ...]
    left_out: Mapping[LeftOut, int]
    trouble: str | None


def select_runs(history: History, question: Question) -> RunSelection:
    """Finished runs of the period: ok ones of this configuration that drew their users are judged."""
    found = history.runs(
        comparison=question.comparison.name, limit=_LOOKED_THROUGH, since=question.since
    )
    finished = [run for run in reversed(found) if run.status is not RunStatus.RUNNING]
    reasons = [_reason(run, question) for run in finished]
    return RunSelection(
        runs=tuple(run for run, reason in zip(finished, reasons, strict=True) if reason is None),
        left_out=Counter(reason for reason in reasons if reason is not None),
        trouble=next(
            (
                run.reason
                for run in reversed(finished)
                if run.status is not RunStatus.OK and run.reason
            ),
            None,
        ),
    )


def _reason(run: Run, question: Question) -> LeftOut | None:
    if run.config_hash != question.comparison.config_hash:
        return LeftOut.OTHER_CONFIGURATION
    if run.status is not RunStatus.OK:
        return LeftOut(run.status.value)
    sample = question.comparison.measuring.sample
    if (
        sample is not None
        and not question.is_census
        and (run.asked or 0) < sample.fixed + sample.rotating
    ):
        return LeftOut.ASKED_EVERYBODY
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSegment:
    """Excess on [0, 1] of the drawn users of one segment in one run who have one, and how many have none."""

    unit: Floats
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRun:
    """What one run adds."""

    run: Run
    segments: Mapping[str, SampledSegment]


def read_run(
    run: Run, history: History, question: Question, users: UsersAt | None
) -> SampledRun | None:
    """The run's rotating users.

    None where it stored no score of what is judged. Without a defined score one is missing.

    InputError for a score out of its range, and where the run's segments are no longer known.
    """
    excess = question.excess
    scores = history.run_scores(run.id, [excess.series])
    if not scores.by_metric:
        return None
    # Fixed users without a score cannot be distinguished from rotating ones. All of them are taken
    # for rotating, so that bounds are never too narrow.
    is_rotating = ~kept_among(scores.users, Keep.PANEL, question.comparison) | question.is_census
    whole = np.arange(len(scores.users), dtype=np.intp), run.asked or 0
    members: dict[str, tuple[Rows, int]] = {ALL: whole}
    record = history.record(run.id) if question.needs_panel else None
    if users is not None and record is not None and record.coverage is not None:
        panel, parts = _panel(run, history, question, scores.users, users), record.coverage.rows
        members = {
            part.segment: (_rows(panel, part.segment, scores.users), part.asked) for part in parts
        }
        # Who was added for a segment's minimum comes back in each run, as the fixed ones do.
        is_rotating &= np.isin(whole[0], members[ALL][0]) | question.is_census
    excesses = excess.of(scores.by_metric[excess.series])
    segments = {
        name: _sampled_segment(excesses[rows][is_rotating[rows]], asked - len(rows), excess.scale)
        for name, (rows, asked) in members.items()
    }
    return SampledRun(run=run, segments=segments)


def _sampled_segment(rotating: Floats, unscored: int, scale: Scale) -> SampledSegment:
    has_score = ~np.isnan(rotating)
    return SampledSegment(
        unit=scale.to_unit(rotating[has_score]), missing=max(unscored + int((~has_score).sum()), 0)
    )


def _panel(
    run: Run, history: History, question: Question, scored: "pd.Index[str]", users: UsersAt
) -> Panel:
    if (kept := history.kept_lists(run.id)) is not None and scored.isin(kept.panel.users).all():
        return kept.panel
    # A draw gives the same users as long as the source lists the same.
    panel = draw(users(run.slot), question.comparison, run.slot)
    if len(panel.segments[ALL]) != run.asked or not scored.isin(panel.users).all():
        msg = (
            f"segments of the run of {format_instant(run.slot)} are not known any more: the users "
            "are others by now. Set keep_lists: all, which keeps segments with the newest run, or "
            "judge newer runs with --since"
        )
        raise InputError(msg)
    return panel


def _rows(panel: Panel, segment: str, scored: "pd.Index[str]") -> Rows:
    # A segment that was too thin to keep has nobody.
    places = panel.segments.get(segment, np.empty(0, dtype=np.intp))
    found = scored.get_indexer(panel.users[places])
    return np.sort(found[found >= 0])
