"""The stored runs that a gate judges, why others are left out, and the drawn users of each run."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd

from monitor.errors import InputError
from monitor.model.arrays import Floats, Rows
from monitor.model.gate import LeftOut
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL, Panel, UserTable
from monitor.model.rules import Keep
from monitor.model.runs import Run, RunStatus
from monitor.ports import History
from monitor.sampling import draw, select_kept
from monitor.sequential.gate import Scale
from monitor.service.gate.question import Question

_LOOKED_THROUGH = 100_000

UsersAt = Callable[[datetime], UserTable]
"""All users at a slot, with their segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """Runs to judge, oldest first, and the number of other runs by reason.

    ``trouble`` says why the newest bad run was bad.
    """

    runs: tuple[Run, ...]
    left_out: Mapping[LeftOut, int]
    trouble: str | None


def select_runs(history: History, question: Question) -> RunSelection:
    """Select the finished ok runs of this configuration that drew their users."""
    stored = history.runs(
        comparison=question.comparison.name, limit=_LOOKED_THROUGH, since=question.since
    )
    judged, trouble = [], None
    left_out: Counter[LeftOut] = Counter()
    for run in reversed(stored):
        if run.status is RunStatus.RUNNING:
            continue
        if run.status is not RunStatus.OK and run.reason:
            trouble = run.reason
        reason = _reason(run, question)
        if reason is None:
            judged.append(run)
        else:
            left_out[reason] += 1
    return RunSelection(runs=tuple(judged), left_out=left_out, trouble=trouble)


def _reason(run: Run, question: Question) -> LeftOut | None:
    if run.config_hash != question.comparison.config_hash:
        return LeftOut.OTHER_CONFIGURATION
    if run.status is not RunStatus.OK:
        return LeftOut(run.status.value)
    sample = question.comparison.measuring.sample
    if sample is None or question.is_census:
        return None
    if (run.asked or 0) < sample.fixed + sample.rotating:
        return LeftOut.ASKED_EVERYBODY
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSegment:
    """The drawn users of one segment in one run.

    ``unit`` is the excess of users with a score, scaled to [0, 1]. ``missing`` counts the others.
    """

    unit: Floats
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRun:
    """A run and its drawn users by segment."""

    run: Run
    segments: Mapping[str, SampledSegment]


def read_run(
    run: Run, history: History, question: Question, users_at: UsersAt | None
) -> SampledRun | None:
    """Read the rotating users of a run, None if it has no score of what is judged.

    A user whose score is undefined counts as missing. InputError for a score out of range, and if
    the segments of the run are no longer known.
    """
    excess = question.excess
    scores = history.run_scores(run.id, [excess.series])
    if not scores.by_metric:
        return None
    # Fixed users without a score look like rotating users. All of them count as rotating, so that
    # bounds are never too narrow.
    is_rotating = ~select_kept(scores.users, Keep.PANEL, question.comparison) | question.is_census
    everyone = np.arange(len(scores.users), dtype=np.intp)
    members: dict[str, tuple[Rows, int]] = {ALL: (everyone, run.asked or 0)}
    record = history.record(run.id) if question.needs_panel else None
    if users_at is not None and record is not None and record.coverage is not None:
        panel = _panel(run, history, question, scores.users, users_at)
        for row in record.coverage.rows:
            members[row.segment] = (_rows(panel, row.segment, scores.users), row.asked)
        # Users added for the minimum of a segment return in each run, like fixed users.
        is_rotating &= np.isin(everyone, members[ALL][0]) | question.is_census
    excesses = excess.of(scores.by_metric[excess.series])
    segments = {}
    for name, (rows, drawn) in members.items():
        rotating = excesses[rows][is_rotating[rows]]
        segments[name] = _sampled_segment(rotating, drawn - len(rows), excess.scale)
    return SampledRun(run=run, segments=segments)


def _sampled_segment(rotating: Floats, unscored: int, scale: Scale) -> SampledSegment:
    has_score = ~np.isnan(rotating)
    missing = max(unscored + int((~has_score).sum()), 0)
    return SampledSegment(unit=scale.to_unit(rotating[has_score]), missing=missing)


def _panel(
    run: Run, history: History, question: Question, scored: "pd.Index[str]", users_at: UsersAt
) -> Panel:
    stored = history.kept_lists(run.id)
    if stored is not None and scored.isin(stored.panel.users).all():
        return stored.panel
    # The draw gives the same users if the source has not changed.
    panel = draw(users_at(run.slot), question.comparison, run.slot)
    if len(panel.segments[ALL]) != run.asked or not scored.isin(panel.users).all():
        raise InputError(
            f"segments of the run of {format_instant(run.slot)} are no longer known, because the "
            "users have changed. Set keep_lists: all, which stores segments with the newest run, "
            "or judge newer runs with --since"
        )
    return panel


def _rows(panel: Panel, segment: str, scored: "pd.Index[str]") -> Rows:
    if segment not in panel.segments:  # it had too few users
        return np.empty(0, dtype=np.intp)
    rows = scored.get_indexer(panel.users[panel.segments[segment]])
    return np.sort(rows[rows >= 0])
