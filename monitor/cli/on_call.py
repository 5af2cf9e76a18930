"""The commands of `alerts` for who is on call: list, acknowledge and resolve."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, pick, print_line, print_records
from monitor.cli.parameters import (
    DEFAULT_CONFIG,
    AsJson,
    Author,
    Comment,
    Config,
    ListingGroup,
    OneComparison,
    author_name,
    opened_database,
    parse_instant,
    require_known,
)
from monitor.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.model.alerts import AlertState, Transition

_STATE_COLUMNS = "comparison alert segment state acknowledged_by since value> threshold> users> outcome reason"
_STATE_FIELDS = (
    "comparison alert segment state since judged_slot outcome reason value threshold users severity incident acknowledged_by"
)
_TRANSITION_COLUMNS = "slot comparison alert segment from to value> threshold> users> reason"
_REASONS = 4  # reasons that are listed for the quiet alerts of a comparison

app = typer.Typer(
    cls=ListingGroup,
    help="Show alerts, acknowledge and resolve them. Without a command: `ls`, whose options are those of `alerts`.",
)

OneAlert = Annotated[str | None, typer.Option("--alert", "-a", help="Only alerts of this name; default all.")]
OneSegment = Annotated[str | None, typer.Option("--segment", "-s", help="Only this segment; default all of them.")]


@app.command("ls")
def list_alerts(
    comparison: OneComparison = None,
    *,
    config: Config = DEFAULT_CONFIG,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, max=1_000_000, help="Only the newest transitions; default all.")
    ] = None,
    as_json: AsJson = False,
    only_states: Annotated[bool, typer.Option("--states", help="The state of every alert, without transitions.")] = False,
) -> None:
    """Show pending and firing alerts, and every transition.

    Quiet alerts are summed up. With --states the state of each alert. With --json one object a transition, oldest first; with
    --states --json one object an alert and segment.
    """
    with opened_database(config) as (store, configured):
        states = [state for state in store.alerts.states() if comparison in (None, state.comparison)]
        transitions = store.alerts.transitions(comparison=comparison, limit=limit)
    if not states and not transitions:
        require_known(comparison, configured)
    if only_states or not as_json:
        shown = states if only_states else [state for state in states if state.state != "quiet"]
        print_records(map(_state_dict, shown), _STATE_COLUMNS, as_json=as_json, title="States")
    if only_states:
        return
    for line in () if as_json else (*_quiet_lines(states), ""):
        print_line(line)
    print_records(map(transition_dict, transitions), _TRANSITION_COLUMNS, as_json=as_json, title="Transitions")


def _quiet_lines(states: Sequence[AlertState]) -> list[str]:
    """A line a comparison: how many alerts are quiet, and how many of these could judge its newest run, or why not."""
    lines = []
    for name in dict.fromkeys(state.comparison for state in states):
        quiet = [state for state in states if state.comparison == name and state.state == "quiet"]
        reasons = Counter(map(_short_reason, quiet))
        listed = "; ".join(f"{count:,} {what}" for what, count in reasons.most_common(_REASONS))
        if quiet:
            lines.append(f"{name}: {len(quiet):,} quiet ({listed}{'; ...' if len(reasons) > _REASONS else ''})")
    return lines


def _short_reason(state: AlertState) -> str:
    return state.reason if state.reason.startswith("learning") else state.outcome.replace("_", " ")


def transition_dict(transition: Transition) -> dict[str, object]:
    """One transition for machines."""
    names = ("reason", "explanation", "value", "threshold", "users", "metric", "statistic", "severity", "dedup_key", "incident")
    return {
        **pick(transition, "slot", "comparison", "alert", "segment"),
        "from": transition.from_state,
        "to": transition.to_state,
        **pick(transition, *names, "interval", "normal"),
    }


def _state_dict(state: AlertState) -> dict[str, object]:
    return pick(state, *_STATE_FIELDS.split())


@app.command(
    "resolve",
    help="Resolve what fires by hand. Further runs in breach make it fire again, as a new alert; `silence` holds it back.",
)
@app.command(
    "ack",
    help="Acknowledge what fires: it is not sent again until it ends. Receivers that know acknowledgements are sent this one.",
)
def change_alerts(  # noqa: PLR0913 - the options of both commands
    context: typer.Context,
    comparison: OneComparison = None,
    *,
    alert: OneAlert = None,
    segment: OneSegment = None,
    by: Author = None,
    comment: Comment = "",
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Acknowledge or resolve all that fires and is chosen, and print what was changed."""
    from monitor.pipeline.alert_actions import Signature, change_firing

    ends = context.info_name == "resolve"
    signed = Signature(author=author_name(by), comment=comment, at=datetime.now(UTC))

    def is_meant(start: Transition) -> bool:
        return comparison in (None, start.comparison) and alert in (None, start.alert) and segment in (None, start.segment)

    with opened_database(config) as (store, _):
        changed = change_firing(store.alerts, is_meant, signed, ends=ends)
    if not changed:
        msg = f"no firing alert matches{'' if ends else f' that {signed.author} has not acknowledged'}: see `rankwatch alerts`"
        raise ConfigError(msg)
    print_records(map(transition_dict, changed), _TRANSITION_COLUMNS, as_json=as_json)


def accept(  # noqa: PLR0913 - the command's options
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    start: Annotated[str, typer.Option("--from", metavar="SLOT", help="Slot of the first run at the new level, ISO 8601.")],
    undo: Annotated[bool, typer.Option("--undo", help="Take back what was accepted from this slot on.")] = False,
    by: Author = None,
    comment: Comment = "",
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Accept what changed as normal: the runs from a slot on teach, and alerts end with the next run at this level.

    Accepting a slot again changes nothing; `--undo` takes it back for the next run. `rankwatch alerts` and `rankwatch show` say
    who accepted what and when.
    """
    slot, now = parse_instant(start), datetime.now(UTC)
    if slot > now:
        msg = f"--from {start} lies in the future: name the slot of a run, see `rankwatch runs {comparison}`"
        raise typer.BadParameter(msg)
    with opened_database(config) as (store, configured):
        found = store.history.run_records(comparison, after=slot - timedelta(microseconds=1), limit=1)
        if not found:
            require_known(comparison, configured)
        level = store.alerts.undo_acceptance(comparison, slot) if undo else None
        if undo and level is None:
            msg = f"nothing of {comparison} was accepted from {instant(slot)} on: see `rankwatch show {comparison}`"
            raise ConfigError(msg)
        if level is None and (not found or (found[0].run.slot, found[0].run.status) != (slot, "ok")):
            msg = f"no ok run of {comparison} has the slot {instant(slot)}: see `rankwatch runs {comparison}`"
            raise ConfigError(msg)
        from monitor.model.alerts import accepted_level
        from monitor.pipeline.alert_actions import Signature

        reason = Signature(author=author_name(by), comment=comment, at=now).reason("accepted")
        level = level or store.alerts.accept(accepted_level(comparison, slot, reason, now))
    print_records([pick(level, "comparison", "slot", "at", "reason")], "comparison slot at reason", as_json=as_json)
