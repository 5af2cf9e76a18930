"""The command `show`: one stored run, with the lists that were kept to be read."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, number, print_json, print_table, say, side_by_side
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_instant
from monitor.errors import InputError

if TYPE_CHECKING:
    from datetime import datetime

    from monitor.model import ArmScore, Evidence, Explanation, Run, Summary
    from monitor.pipeline.presenting import ArmRow
    from monitor.ports import Store

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
    from monitor.pipeline.laying_out import head_of
    from monitor.pipeline.presenting import both_arms
    from monitor.settings import load
    from monitor.storage import open_store

    store = open_store(load(config).database, create=False)
    try:
        run = _find(store, comparison, parse_instant(slot) if slot is not None else None)
        summaries, evidence, arm_scores = store.summaries(run.id), store.evidence(run.id), store.arm_scores(run.id)
        explanation = store.explanation(run.id)
    finally:
        store.close()
    worst = [each for each in evidence if each.kind == "worst"][:users]
    if as_json:
        print_json({**_as_dict(run, summaries, evidence, arm_scores), "explanation": explanation and asdict(explanation)})
        return
    say(f"{run.comparison}  slot {instant(run.slot)}  {run.status}  {run.paired or 0:,} of {run.asked or 0:,} users compared")
    if run.reason:
        say(run.reason)
    if explanation is not None:
        say(f"{head_of(explanation)}: {explanation.sentence}")
    columns = ("segment", "metric", "mean>", "std.error>", "p05>", "median>", "users>", "by chance>")
    print_table(columns, (_row(run, summary) for summary in summaries))
    _say_more(run)
    if arm_scores:
        say()
        arm_columns = ("segment", "arm-wide metric", "baseline>", "candidate>", "lists>")
        print_table(arm_columns, map(_arm_row, both_arms(arm_scores)))
    if explanation is not None:
        _say_explanation(explanation)
    for each in worst:
        scores = "  ".join(f"{metric} {number(value)}" for metric, value in each.scores.items())
        say()
        print_table(("", "baseline", "candidate", ""), side_by_side(each), title=f"user {each.user}   {scores}")


def _say_explanation(explanation: Explanation) -> None:
    """What stands behind the sentence."""
    from monitor.pipeline.laying_out import bounds_of, lay_out

    for sheet in lay_out(explanation):
        say()
        print_table(sheet.columns, sheet.rows, title=sheet.title)
    if (bounds := bounds_of(explanation)) is not None:
        say(bounds)


def _find(store: Store, comparison: str, slot: datetime | None) -> Run:
    runs = store.runs(comparison=comparison, limit=_LOOKED_THROUGH)
    found = next((run for run in runs if run.status != "running" and slot in (None, run.slot)), None)
    if found is None:
        which = "no finished run" if slot is None else f"no finished run of slot {instant(slot)}"
        msg = f"{which} of a comparison named {comparison!r} is stored; see rankwatch runs"
        raise InputError(msg)
    return found


def _say_more(run: Run) -> None:
    """What chance refers to, and how it stands with relevance."""
    if run.k is not None and run.catalogue_size is not None:
        say(f"by chance: two random lists of {run.k:,} from a catalogue of {run.catalogue_size:,} items")
    if run.labelled_at is not None:
        say(f"relevance: labelled {instant(run.labelled_at)}")
    elif run.labels_until is not None:
        command = f"rankwatch backfill {run.comparison}"
        say(f"relevance: waiting for labels until {instant(run.labels_until)}; {command} looks for them")


def _row(run: Run, summary: Summary) -> tuple[str, ...]:
    from monitor.pipeline.presenting import by_chance

    figures = (summary.mean, summary.standard_error, summary.value("p05"), summary.value("p50"))
    chance = number(by_chance(summary.metric, run))
    return (summary.segment, summary.metric, *(number(figure) for figure in figures), f"{summary.n:,}", chance)


def _arm_row(row: ArmRow) -> tuple[str, ...]:
    return (row.segment, row.metric, number(row.baseline), number(row.candidate), f"{row.n:,}")


def _as_dict(
    run: Run, summaries: tuple[Summary, ...], evidence: tuple[Evidence, ...], arm_scores: tuple[ArmScore, ...]
) -> dict[str, object]:
    from monitor.pipeline.presenting import by_chance

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
                "by_chance": by_chance(each.metric, run),
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
