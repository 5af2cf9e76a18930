"""Commands that show what is stored: `runs`, `show` and the list of `alerts`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, number, print_json, print_line, print_table, side_by_side
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, OneComparison, OneName, only_one, parse_instant
from monitor.errors import ConfigError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.model import AlertState, Run, Transition

_REASONS = 4
"""Told of the quiet alerts of a comparison."""

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="How many of the newest to show.")]


def runs(
    name: OneName = None,
    *,
    config: Config = DEFAULT_CONFIG,
    comparison: OneComparison = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List stored runs, newest first."""
    from monitor.settings import load_settings
    from monitor.storage import open_store

    comparison = only_one(name, comparison)
    settings = load_settings(config)
    store = open_store(settings.database, create=False)
    try:
        found = store.history.runs(comparison=comparison, limit=limit)
    finally:
        store.close()
    if not found:
        _require_known(comparison, [each.name for each in settings.comparisons])
    if as_json:
        for run in found:
            print_json(_run_dict(run))
        return
    columns = ("slot", "comparison", "status", "asked>", "paired>", "attempt>", "took>", "reason")
    print_table(columns, (_run_row(run) for run in found))


def alerts(
    name: OneName = None,
    *,
    config: Config = DEFAULT_CONFIG,
    comparison: OneComparison = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, max=1_000_000, help="Only the newest transitions; default all.")
    ] = None,
    as_json: AsJson = False,
    only_states: Annotated[bool, typer.Option("--states", help="Where every alert stands, without changes.")] = False,
) -> None:
    """Show which alerts do not stand quiet, what the quiet ones last said, and every change so far.

    With --states where each of them stands. With --json one object a change, oldest first; with --states --json one object an
    alert and segment.
    """
    from monitor.settings import load_settings
    from monitor.storage import open_store

    comparison = only_one(name, comparison)
    settings = load_settings(config)
    store = open_store(settings.database, create=False)
    try:
        states = [state for state in store.alerts.states() if comparison in (None, state.comparison)]
        transitions = store.alerts.transitions(comparison=comparison, limit=limit)
    finally:
        store.close()
    if not states and not transitions:
        _require_known(comparison, [each.name for each in settings.comparisons])
    if as_json:
        for each in [_state_dict(state) for state in states] if only_states else map(transition_dict, transitions):
            print_json(each)
        return
    columns = ("comparison", "alert", "segment", "state", "since", "value>", "threshold>", "users>", "last verdict")
    shown = states if only_states else [state for state in states if state.state.value != "quiet"]
    print_table(columns, (_state_row(state) for state in shown), title="States")
    if only_states:
        return
    for line in _quiet_lines(states):
        print_line(line)
    print_line()
    changes = ("slot", "comparison", "alert", "segment", "from", "to", "value>", "threshold>", "users>", "reason")
    print_table(changes, (_transition_row(transition) for transition in transitions), title="Transitions")


def _quiet_lines(states: Sequence[AlertState]) -> list[str]:
    """A line a comparison: how many alerts are quiet, and how many of these could judge its newest run, or why not."""
    lines = []
    for name in dict.fromkeys(state.comparison for state in states):
        quiet = [state for state in states if state.comparison == name and state.state.value == "quiet"]
        said = Counter(_sum_up(state) for state in quiet)
        told = "; ".join(f"{count:,} {what}" for what, count in said.most_common(_REASONS))
        if quiet:
            lines.append(f"{name}: {len(quiet):,} quiet ({told}{'; ...' if len(said) > _REASONS else ''})")
    return lines


def _sum_up(state: AlertState) -> str:
    outcome = state.outcome.value
    return state.reason if state.reason.startswith("learning") else "ok" if outcome == "ok" else outcome.replace("_", " ")


def _require_known(comparison: str | None, configured: list[str]) -> None:
    """Tell a comparison that has nothing stored yet from a mistyped one."""
    if comparison is not None and comparison not in configured:
        msg = f"no comparison named {comparison!r}: nothing of it is stored, and the configuration has {', '.join(configured)}"
        raise ConfigError(msg)


def transition_dict(transition: Transition) -> dict[str, object]:
    """One transition for machines."""
    return {
        "slot": transition.slot,
        "comparison": transition.comparison,
        "alert": transition.alert,
        "segment": transition.segment,
        "from": transition.from_state.value,
        "to": transition.to_state.value,
        "reason": transition.reason,
        "explanation": transition.explanation,
        "value": transition.value,
        "threshold": transition.threshold,
        "users": transition.users,
        "metric": transition.metric,
        "statistic": transition.statistic,
        "severity": transition.severity.value,
        "dedup_key": transition.dedup_key,
        "incident": transition.incident,
        "interval": transition.interval,
        "normal": transition.normal,
    }


def _state_dict(state: AlertState) -> dict[str, object]:
    return {
        "comparison": state.comparison,
        "alert": state.alert,
        "segment": state.segment,
        "state": state.state.value,
        "since": state.since,
        "judged_slot": state.judged_slot,
        "outcome": state.outcome.value,
        "reason": state.reason,
        "value": state.value,
        "threshold": state.threshold,
        "users": state.users,
        "severity": state.severity.value,
        "incident": state.incident,
        "acknowledged_by": state.acknowledged_by,
    }


def _run_dict(run: Run) -> dict[str, object]:
    return {
        "slot": run.slot,
        "comparison": run.comparison,
        "status": run.status.value,
        "reason": run.reason,
        "asked": run.asked,
        "paired": run.paired,
        "k": run.k,
        "attempt": run.attempt,
        "owner": run.owner,
        "config_hash": run.config_hash,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
    }


def _run_row(run: Run) -> tuple[str, ...]:
    took = f"{(run.finished_at - run.started_at).total_seconds():.1f}s" if run.finished_at else "-"
    asked, paired = (("-" if count is None else f"{count:,}") for count in (run.asked, run.paired))
    return (instant(run.slot), run.comparison, run.status.value, asked, paired, str(run.attempt), took, run.reason or "")


def _state_row(state: AlertState) -> tuple[str, ...]:
    return (
        state.comparison,
        state.alert,
        state.segment,
        state.state.value if state.acknowledged_by is None else f"{state.state.value}, {state.acknowledged_by} looks after it",
        instant(state.since),
        number(state.value),
        f"{state.threshold:g}",
        f"{state.users:,}",
        f"{state.outcome}: {state.reason}",
    )


def _transition_row(transition: Transition) -> tuple[str, ...]:
    return (
        instant(transition.slot),
        transition.comparison,
        transition.alert,
        transition.segment,
        transition.from_state.value,
        transition.to_state.value,
        number(transition.value),
        f"{transition.threshold:g}",
        f"{transition.users:,}",
        transition.reason,
    )


if TYPE_CHECKING:
    from datetime import datetime

    from monitor.model import ArmScore, Evidence, Explanation, Run, Summary
    from monitor.ports import History
    from monitor.presentation import ArmRow

_LOOKED_THROUGH = 10_000


def show(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    config: Config = DEFAULT_CONFIG,
    slot: Annotated[str | None, typer.Option(help="The run's slot, ISO 8601; default: the newest finished run.")] = None,
    users: Annotated[int, typer.Option("--users", "-n", min=0, help="How many of the worst users to show.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show one run: similarity by segment, why it fell, and both lists of the users that were worst off, side by side."""
    from monitor.presentation import arm_rows, explanation_title
    from monitor.settings import load_settings
    from monitor.storage import open_store

    store = open_store(load_settings(config).database, create=False)
    try:
        history = store.history
        run = _find(history, comparison, parse_instant(slot) if slot is not None else None)
        summaries, evidence, arm_scores = history.summaries(run.id), history.evidence(run.id), history.arm_scores(run.id)
        explanation = history.explanation(run.id)
    finally:
        store.close()
    worst = [each for each in evidence if each.kind == "worst"][:users]
    if as_json:
        print_json({**_shown_dict(run, summaries, evidence, arm_scores), "explanation": explanation and asdict(explanation)})
        return
    print_line(
        f"{run.comparison}  slot {instant(run.slot)}  {run.status}  {run.paired or 0:,} of {run.asked or 0:,} users compared"
    )
    if run.reason:
        print_line(run.reason)
    if explanation is not None:
        print_line(f"{explanation_title(explanation)}: {explanation.sentence}")
    columns = ("segment", "metric", "mean>", "std.error>", "p05>", "median>", "users>", "by chance>")
    print_table(columns, (_summary_row(run, summary) for summary in summaries))
    _print_notes(run)
    if arm_scores:
        print_line()
        arm_columns = ("segment", "arm-wide metric", "baseline>", "candidate>", "lists>")
        print_table(arm_columns, map(_arm_row, arm_rows(arm_scores)))
    if explanation is not None:
        _print_explanation(explanation)
    for each in worst:
        scores = "  ".join(f"{metric} {number(value)}" for metric, value in each.scores.items())
        print_line()
        print_table(("", "baseline", "candidate", ""), side_by_side(each), title=f"user {each.user}   {scores}")


def _print_explanation(explanation: Explanation) -> None:
    """What stands behind the sentence."""
    from monitor.presentation import drop_bounds, explanation_tables

    for sheet in explanation_tables(explanation):
        print_line()
        print_table(sheet.columns, sheet.rows, title=sheet.title)
    if (bounds := drop_bounds(explanation)) is not None:
        print_line(bounds)


def _find(history: History, comparison: str, slot: datetime | None) -> Run:
    runs = history.runs(comparison=comparison, limit=_LOOKED_THROUGH)
    found = next((run for run in runs if run.status != "running" and slot in (None, run.slot)), None)
    if found is None:
        which = "no finished run" if slot is None else f"no finished run of slot {instant(slot)}"
        msg = f"{which} of a comparison named {comparison!r} is stored; see rankwatch runs"
        raise InputError(msg)
    return found


def _print_notes(run: Run) -> None:
    """What chance refers to, and how it stands with relevance."""
    if run.k is not None and run.catalogue_size is not None:
        print_line(f"by chance: two random lists of {run.k:,} from a catalogue of {run.catalogue_size:,} items")
    if run.labelled_at is not None:
        print_line(f"relevance: labelled {instant(run.labelled_at)}")
    elif run.labels_until is not None:
        command = f"rankwatch backfill {run.comparison}"
        print_line(f"relevance: waiting for labels until {instant(run.labels_until)}; {command} looks for them")


def _summary_row(run: Run, summary: Summary) -> tuple[str, ...]:
    from monitor.presentation import score_by_chance

    figures = (summary.mean, summary.standard_error, summary.value("p05"), summary.value("p50"))
    chance = number(score_by_chance(summary.metric, run))
    return (summary.segment, summary.metric, *(number(figure) for figure in figures), f"{summary.n:,}", chance)


def _arm_row(row: ArmRow) -> tuple[str, ...]:
    return (row.segment, row.metric, number(row.baseline), number(row.candidate), f"{row.n:,}")


def _shown_dict(
    run: Run, summaries: tuple[Summary, ...], evidence: tuple[Evidence, ...], arm_scores: tuple[ArmScore, ...]
) -> dict[str, object]:
    from monitor.presentation import score_by_chance

    return {
        "comparison": run.comparison,
        "slot": run.slot,
        "status": run.status.value,
        "reason": run.reason,
        "asked": run.asked,
        "paired": run.paired,
        "k": run.k,
        "catalogue_size": run.catalogue_size,
        "labelled_at": run.labelled_at,
        "labels_until": run.labels_until,
        "summaries": [
            {
                "segment": each.segment,
                "metric": each.metric,
                "users": each.n,
                "undefined": each.n_undefined,
                "mean": each.mean,
                "standard_error": each.standard_error,
                "by_chance": score_by_chance(each.metric, run),
                **each.statistics,
            }
            for each in summaries
        ],
        "arm_scores": [
            {"segment": each.segment, "arm": each.arm.value, "metric": each.metric, "value": each.value, "lists": each.n}
            for each in arm_scores
        ],
        "evidence": [
            {
                "kind": each.kind.value,
                "user": each.user,
                "scores": dict(each.scores),
                "baseline": each.baseline,
                "candidate": each.candidate,
            }
            for each in evidence
        ],
    }
