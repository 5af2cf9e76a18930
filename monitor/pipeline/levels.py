"""Finds the levels of past runs from which a run can learn, and writes notes on levels."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from monitor.model.alerts import NEW_NORMAL, Transition
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.memory import PastRun
from monitor.model.rankings import Arm
from monitor.model.runs import MeasuredRun
from monitor.statistics.reference.history import WINDOW
from monitor.statistics.reference.prediction import Reference
from monitor.statistics.reference.spread import SETTLED_RUNS
from monitor.texts.actions import accept_command
from monitor.texts.model_versions import write_model_changes


@immutable
class UsablePast:
    """The past runs from which a run can learn, oldest first."""

    runs: Sequence[PastRun]
    model_changes: Sequence[int] = ()  # indexes of runs with other models than the run before
    note: str = ""  # for people, on the series whose level did not change

    def find_accepted_levels(self, accepted: Iterable[Transition]) -> list[tuple[int, int]]:
        """Return two indexes in ``runs`` for each accepted level of the series' values.

        They are the indexes of the level's first run, and of the first run after its acceptance. A
        person accepts the level at which an alert began. The level of a new model is accepted with
        its first run. A level without past runs before its acceptance is left out.
        """
        slots = [run.slot for run in self.runs]  # oldest first
        levels = [(change, change + 1) for change in self.model_changes]
        for acceptance in accepted:
            first_run = bisect_left(slots, acceptance.slot)
            first_run_after_acceptance = bisect_right(slots, acceptance.at)
            if first_run < first_run_after_acceptance:
                levels.append((first_run, first_run_after_acceptance))
        return sorted(levels)

    def runs_until_new_normal(self, slot: datetime) -> int:
        """Return how many runs in a row at a changed level make that level the new normal.

        This is the number of runs in the last day, but at least SETTLED_RUNS and at most WINDOW.
        """
        runs_of_a_day = sum(run.slot > slot - timedelta(days=1) for run in self.runs)
        return min(max(runs_of_a_day, SETTLED_RUNS), WINDOW)

    def describe_levels(self, comparison: str, reference: Reference) -> list[str]:
        """Write a note on the level of each series."""
        notes = []
        # ``first_run`` is the index of the past run at which the level began, or -1. If the level
        # does not differ from the level before, the series came back to its former level.
        for first_run, is_different in zip(reference.since, reference.has_moved, strict=True):
            if first_run < 0:
                notes.append(self.note)
                continue
            since = self.runs[first_run].slot
            if is_different:
                command = accept_command(comparison, since)
                notes.append(
                    f"{NEW_NORMAL} {format_instant(since)}: accept it ({command}) or roll back"
                )
            else:
                notes.append(f"normal again since {format_instant(since)}")
        return notes


def select_past_of_models(past: Sequence[PastRun], measured: MeasuredRun) -> UsablePast:
    """Select the past runs from which a run of the measured run's models can learn.

    - All runs before the first run of these models, because they show how much runs vary.
    - Of the later runs, only the runs of these models. If an earlier model comes back, its former
      level is normal.

    The first run of new models is not judged, so no past run is selected for it. There is one
    exception: if the last run had new models too, the runs above are selected. Without this
    exception, no run would be judged in a comparison whose models change in each run.
    """
    *past_models, current = _name_models(past, measured)
    is_new = current not in past_models
    first_of_current = len(past_models)
    if not is_new:
        first_of_current = past_models.index(current)
    runs = []
    models = []
    for row, (run, model) in enumerate(zip(past, past_models, strict=True)):
        if row < first_of_current or model == current:
            runs.append(run)
            models.append(model)
    changes = [row for row in range(1, len(runs)) if models[row] != models[row - 1]]
    has_changed_in_last_run = len(runs) - 1 in changes
    if runs and is_new and not has_changed_in_last_run:
        difference = _describe_models(measured, past[-1])
        return UsablePast(runs=(), note=f"not judged by what was normal before: {difference}")
    note = ""
    if changes and len(runs) - changes[-1] < SETTLED_RUNS:
        last_of_old = runs[changes[-1] - 1]
        first_of_new = runs[changes[-1]]
        since = format_instant(first_of_new.slot)
        note = f"{NEW_NORMAL} {since}: {_describe_models(measured, last_of_old)}"
    return UsablePast(runs=runs, model_changes=changes, note=note)


def _name_models(past: Sequence[PastRun], measured: MeasuredRun) -> list[tuple[str | None, ...]]:
    """Return the names of both arms' models in each past run, and last in the measured run.

    A run without names of models gets the names of the next run that has names.
    """
    newest_first: list[tuple[str | None, ...]] = []
    names: dict[Arm, str | None] = dict.fromkeys(Arm)
    for models in (measured.models, *(run.models for run in reversed(past))):
        for arm, model in (models or {}).items():
            names[arm] = model.now or names[arm]
        newest_first.append(tuple(names.values()))
    return newest_first[::-1]


def _describe_models(measured: MeasuredRun, run_before: PastRun) -> str:
    return " and ".join(write_model_changes(measured.models, measured.slot, run_before.slot))
