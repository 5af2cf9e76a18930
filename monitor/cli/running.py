"""Commands that run slots: `run-once` and `replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, number, print_json, print_table, progress, say
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, OneComparison, OneName, only_one, parse_instant
from monitor.errors import MonitorError

if TYPE_CHECKING:
    from monitor.model import RunResult, Summary

FAILED_EXIT = 3


def run_once(
    name: OneName = None,
    *,
    config: Config = DEFAULT_CONFIG,
    slot: Annotated[str | None, typer.Option(help="The slot, ISO 8601; default: the newest one of the schedule.")] = None,
    comparison: OneComparison = None,
    as_json: AsJson = False,
) -> None:
    """Run one slot of each comparison, tell receivers what fires, and exit.

    Exit 0 when all ran, 3 when one failed, 5 when a receiver could not be told.
    """
    from monitor.service.wiring import one_shot

    comparison = only_one(name, comparison)
    wanted = parse_instant(slot) if slot is not None else None
    with one_shot(config, settles=True) as service:
        outcomes = list(service.run_once(comparison, wanted))
        results = [each for each in outcomes if not isinstance(each, MonitorError)]
        errors = [each for each in outcomes if isinstance(each, MonitorError)]
        _print(results, as_json=as_json)
        try:
            service.deliver()
        except MonitorError as error:
            errors.append(error)
    for each in errors[:-1]:
        typer.echo(f"rankwatch: {each}", err=True)
    if errors:
        raise errors[-1]
    _exit(results)


def replay(  # noqa: PLR0913 - the command's options
    name: OneName = None,
    *,
    start: Annotated[str, typer.Option("--from", help="First slot, ISO 8601, included.")],
    end: Annotated[str, typer.Option("--to", help="Last slot, ISO 8601, included.")],
    config: Config = DEFAULT_CONFIG,
    comparison: OneComparison = None,
    notify: Annotated[bool, typer.Option("--notify", help="Tell receivers too; by default nobody is told.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run every slot of a past period in order, as if live: rules, states and transitions with the slot's time."""
    from monitor.service.wiring import one_shot

    comparison = only_one(name, comparison)
    first, last = parse_instant(start), parse_instant(end)
    if last < first:
        msg = f"--to {end} lies before --from {start}"
        raise typer.BadParameter(msg)
    results: list[RunResult] = []
    with one_shot(config, settles=False) as service, progress() as bar:
        slots = service.slots(comparison, first, last)
        task = bar.add_task("replay", total=len(slots))
        try:
            for result in service.replay(slots, is_announced=notify):
                results.append(result)
                bar.update(task, advance=1, description=f"replay {result.claim.comparison} {instant(result.claim.slot)}")
                if as_json:
                    print_json(as_dict(result))
        finally:
            bar.stop()
            if not as_json:
                _print(results, as_json=False)
            if notify:
                service.deliver()
    _warn_of_unjudged(results)
    _exit(results)


def _warn_of_unjudged(results: list[RunResult]) -> None:
    """Say when alerts did not move because newer slots had been judged before."""
    count = sum(any(state.judged_slot > result.claim.slot for state in result.states) for result in results)
    if count:
        typer.echo(
            f"{count} of {len(results)} runs were measured but judged nothing: newer slots of theirs were judged before. "
            "To see what the rules would have done, replay into an empty database.",
            err=True,
        )


def as_dict(result: RunResult) -> dict[str, object]:
    """One run for machines: what it compared, summaries by metric and segment if it is ok, and what changed."""
    coverage = result.coverage.all if result.coverage else None
    return {
        "slot": result.claim.slot,
        "comparison": result.claim.comparison,
        "status": result.status.value,
        "reason": result.reason,
        "asked": coverage.asked if coverage else None,
        "paired": coverage.paired if coverage else None,
        "coverage": {f"{arm}.{reason}": count for (arm, reason), count in (coverage.reasons if coverage else {}).items()},
        "summaries": _summaries(result),
        "transitions": [
            {"alert": each.alert, "segment": each.segment, "from": each.from_state.value, "to": each.to_state.value}
            for each in result.transitions
        ],
    }


def _summaries(result: RunResult) -> dict[str, dict[str, object]]:
    """Mean, standard error and users by metric and segment; nothing of a run that compared too little to be believed."""
    found: dict[str, dict[str, object]] = {}
    for summary in _believable(result):
        found.setdefault(summary.metric, {})[summary.segment] = {
            "mean": summary.mean,
            "standard_error": summary.standard_error,
            "users": summary.n,
        }
    return found


def _believable(result: RunResult) -> tuple[Summary, ...]:
    return result.summaries if result.status == "ok" else ()


def _print(results: list[RunResult], *, as_json: bool) -> None:
    from monitor.model import parse_derived

    if as_json:
        for result in results:
            print_json(as_dict(result))
        return
    measured = dict.fromkeys(summary.metric for result in results for summary in _believable(result))
    metrics = [name for name in measured if parse_derived(name)[0] is None]  # the noise floor's would make it too wide
    columns = ("slot", "comparison", "status", "asked>", "paired>", *(f"{metric}>" for metric in metrics), "alerts")
    print_table(columns, (_row(result, metrics) for result in results))
    for result in results:
        if result.reason:
            say(f"{result.claim.comparison} {instant(result.claim.slot)}: {result.reason}")


def _row(result: RunResult, metrics: list[str]) -> tuple[str, ...]:
    from monitor.model import ALL

    coverage = result.coverage.all if result.coverage else None
    means = {summary.metric: summary.mean for summary in _believable(result) if summary.segment == ALL}
    changes = (f"{each.alert}[{each.segment}] {each.from_state} -> {each.to_state}" for each in result.transitions)
    return (
        instant(result.claim.slot),
        result.claim.comparison,
        result.status.value,
        f"{coverage.asked:,}" if coverage else "-",
        f"{coverage.paired:,}" if coverage else "-",
        *(number(means.get(metric)) for metric in metrics),
        ", ".join(changes),
    )


def _exit(results: list[RunResult]) -> None:
    if any(result.status == "failed" for result in results):
        raise typer.Exit(FAILED_EXIT)
