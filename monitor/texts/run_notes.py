"""Writes the notes on a run that its page and `rankwatch show` have in common."""

from collections.abc import Iterator
from datetime import datetime

from monitor.model.instants import format_instant, format_second
from monitor.model.model_versions import ArmModel
from monitor.model.rankings import Arm
from monitor.model.runs import Run


def write_run_notes(run: Run, same_lists_since: datetime | None) -> Iterator[str]:
    """Write a line for each fact of the run.

    ``same_lists_since`` is the slot of the previous run if that run had the same lists.
    """
    if same_lists_since is not None and run.paired:
        since = format_instant(same_lists_since)
        yield f"neither arm's lists changed: this run has the same lists as the run of {since}"
    for arm, model in (run.models or {}).items():
        yield _write_model(arm, model)
    if run.labelled_at is not None:
        yield f"relevance: labelled {format_second(run.labelled_at)}"
    elif run.labels_until is not None:
        yield (
            f"relevance: the run waits for labels until {format_instant(run.labels_until)}. "
            f"rankwatch backfill {run.comparison} looks for new labels"
        )


def _write_model(arm: Arm, model: ArmModel) -> str:
    text = f"model of the {arm}: {model.now or 'unknown'}"
    if model.since is not None:
        text += f", {model.before} until the run of {format_instant(model.since)}"
    if len(model.users) > 1:
        users = [f"{version} ({count:,} users)" for version, count in model.users.items()]
        text += f"; answered by {', '.join(users)}"
    return text
