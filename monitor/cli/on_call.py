"""Commands for who is on call: `alerts`, `accept`, `silence` and `notify`."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import parameters
from monitor.cli.output import (
    DELIVERY_EXIT,
    instant,
    log_errors_only,
    pick,
    print_error,
    print_json,
    print_line,
    print_records,
)
from monitor.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.model.alerts import AlertState, Transition
    from monitor.model.notifications import Delivery, Silence

_STATE_COLUMNS = (
    "comparison alert segment state acknowledged_by since value> threshold> users> outcome reason"
)
_STATE_FIELDS = (
    *(
        "comparison",
        "alert",
        "segment",
        "state",
        "since",
        "judged_slot",
        "outcome",
        "reason",
        "value",
        "threshold",
        "users",
    ),
    *("severity", "incident", "acknowledged_by"),
)
_TRANSITION_COLUMNS = "slot comparison alert segment from to value> threshold> users> reason"
_REASONS = 4  # reasons that are listed for the quiet alerts of a comparison

alerts_app = typer.Typer(
    cls=parameters.ListingGroup,
    help=(
        "Show alerts, acknowledge and resolve them. Without a command: `ls`, whose options are "
        "those of `alerts`."
    ),
)

silence_app = typer.Typer(
    cls=parameters.ListingGroup,
    help="Add, list and expire silences, which hold alerts back. Without a command: `ls`.",
)
_SILENCE_COLUMNS = "id> matchers starts_at ends_at author comment"
notify_app = typer.Typer(
    help="Send a test to receivers; list pending deliveries.", no_args_is_help=True
)
_SETTLED = 100
_MOST = 10_000


@alerts_app.command("ls")
def list_alerts(
    comparison: parameters.OneComparison = None,
    *,
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=1, max=1_000_000, help="Only the newest transitions; default all."
        ),
    ] = None,
    as_json: parameters.AsJson = False,
    only_states: Annotated[
        bool, typer.Option("--states", help="The state of every alert, without transitions.")
    ] = False,
) -> None:
    """Show pending and firing alerts, and every transition.

    Quiet alerts are summed up. With --states the state of each alert. With --json one object a
        transition, oldest first; with
    --states --json one object an alert and segment.
    """
    with parameters.opened_database(config) as (store, configured):
        states = [
            state for state in store.alerts.states() if comparison in (None, state.comparison)
        ]
        transitions = store.alerts.transitions(comparison=comparison, limit=limit)
    if not states and not transitions:
        parameters.require_known(comparison, configured)
    if only_states or not as_json:
        shown = states if only_states else [state for state in states if state.state != "quiet"]
        print_records(
            (pick(each, *_STATE_FIELDS) for each in shown),
            _STATE_COLUMNS,
            as_json=as_json,
            title="States",
        )
    if only_states:
        return
    for line in () if as_json else (*_quiet_lines(states), ""):
        print_line(line)
    print_records(
        map(transition_dict, transitions), _TRANSITION_COLUMNS, as_json=as_json, title="Transitions"
    )


def _quiet_lines(states: Sequence[AlertState]) -> list[str]:
    """A line a comparison: how many alerts are quiet, and how many of these could judge its newest run, or why not."""
    lines = []
    for name in dict.fromkeys(state.comparison for state in states):
        quiet = [state for state in states if state.comparison == name and state.state == "quiet"]
        reasons = Counter(
            each.reason if each.reason.startswith("learning") else each.outcome.replace("_", " ")
            for each in quiet
        )
        listed = "; ".join(f"{count:,} {what}" for what, count in reasons.most_common(_REASONS))
        if quiet:
            lines.append(
                (
                    f"{name}: {len(quiet):,} quiet "
                    f"({listed}{'; ...' if len(reasons) > _REASONS else ''})"
                )
            )
    return lines


def transition_dict(transition: Transition) -> dict[str, object]:
    """One transition for machines."""
    names = (
        "reason",
        "explanation",
        "value",
        "threshold",
        "users",
        "metric",
        "statistic",
        "severity",
        "dedup_key",
        "incident",
    )
    return {
        **pick(transition, "slot", "comparison", "alert", "segment"),
        "from": transition.from_state,
        "to": transition.to_state,
        **pick(transition, *names, "interval", "normal"),
    }


@alerts_app.command(
    "resolve",
    help=(
        "Resolve what fires by hand. Further runs in breach make it fire again, as a new alert; "
        "`silence` holds it back."
    ),
)
@alerts_app.command(
    "ack",
    help=(
        "Acknowledge what fires: it is not sent again until it ends. Receivers that know "
        "acknowledgements are sent this one."
    ),
)
def change_alerts(  # noqa: PLR0913 - the options of both commands
    context: typer.Context,
    comparison: parameters.OneComparison = None,
    *,
    alert: Annotated[
        str | None, typer.Option("--alert", "-a", help="Only alerts of this name; default all.")
    ] = None,
    segment: Annotated[
        str | None, typer.Option("--segment", "-s", help="Only this segment; default all of them.")
    ] = None,
    by: parameters.Author = None,
    comment: parameters.Comment = "",
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    as_json: parameters.AsJson = False,
) -> None:
    """Acknowledge or resolve all that fires and is chosen, and print what was changed."""
    from monitor.model.instants import utc_now
    from monitor.pipeline.alert_actions import Signature, change_firing

    ends = context.info_name == "resolve"
    signed = Signature(author=parameters.author_name(by), comment=comment, at=utc_now())

    def is_meant(start: Transition) -> bool:
        return (
            comparison in (None, start.comparison)
            and alert in (None, start.alert)
            and segment in (None, start.segment)
        )

    with parameters.opened_database(config) as (store, _):
        changed = change_firing(store.alerts, is_meant, signed, ends=ends)
    if not changed:
        msg = (
            "no firing alert "
            f"matches{'' if ends else f' that {signed.author} has not acknowledged'}: see "
            "`rankwatch alerts`"
        )
        raise ConfigError(msg)
    print_records(map(transition_dict, changed), _TRANSITION_COLUMNS, as_json=as_json)


def accept(  # noqa: PLR0913 - the command's options
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="SLOT", help="Slot of the first run at the new level, ISO 8601."
        ),
    ],
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back what was accepted from this slot on.")
    ] = False,
    by: parameters.Author = None,
    comment: parameters.Comment = "",
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    as_json: parameters.AsJson = False,
) -> None:
    """Accept what changed as normal: the runs from a slot on teach, and alerts end with the next run at this level.

    Accepting a slot again changes nothing; `--undo` takes it back for the next run. `rankwatch alerts` and `rankwatch show` say
    who accepted what and when.
    """
    from monitor.model.instants import utc_now

    slot, now = parameters.parse_instant(start), utc_now()
    if slot > now:
        msg = (
            f"--from {start} lies in the future: name the slot of a run, see `rankwatch runs "
            f"{comparison}`"
        )
        raise typer.BadParameter(msg)
    with parameters.opened_database(config) as (store, configured):
        found = store.history.run_records(
            comparison, after=slot - timedelta(microseconds=1), limit=1
        )
        if not found:
            parameters.require_known(comparison, configured)
        level = store.alerts.undo_acceptance(comparison, slot) if undo else None
        if undo and level is None:
            msg = (
                f"nothing of {comparison} was accepted from {instant(slot)} on: see `rankwatch "
                f"show {comparison}`"
            )
            raise ConfigError(msg)
        if level is None and (
            not found or (found[0].run.slot, found[0].run.status) != (slot, "ok")
        ):
            raise ConfigError(
                (
                    f"no ok run of {comparison} has the slot {instant(slot)}: see `rankwatch runs "
                    f"{comparison}`"
                )
            )
        from monitor.model.alerts import accepted_level
        from monitor.pipeline.alert_actions import Signature

        reason = Signature(author=parameters.author_name(by), comment=comment, at=now).reason(
            "accepted"
        )
        level = level or store.alerts.accept(accepted_level(comparison, slot, reason, now))
    print_records(
        [pick(level, "comparison", "slot", "at", "reason")],
        "comparison slot at reason",
        as_json=as_json,
    )


@silence_app.command("add")
def add_silence(  # noqa: PLR0913 - the command's options
    matchers: Annotated[
        list[str],
        typer.Argument(
            metavar="MATCHER...",
            help="All of them must match: name=value, name!=value, name=~regex or name!~regex, of "
            "alert, comparison, segment, severity, metric, statistic or a label of the rule.",
        ),
    ],
    *,
    span: Annotated[str | None, typer.Option("--for", help="How long, such as 2h.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Instead of --for: its end, ISO 8601.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Its beginning, ISO 8601; default now.")
    ] = None,
    by: parameters.Author = None,
    comment: parameters.Comment = "",
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    as_json: parameters.AsJson = False,
) -> None:
    """Hold alerts back for a time.

    What still fires when it ends is sent then; what ended meanwhile never is.
    """
    from monitor.model.instants import utc_now
    from monitor.pipeline.alert_actions import Signature, make_silence

    now = utc_now()
    starts_at = now if start is None else parameters.parse_instant(start)
    signed = Signature(author=parameters.author_name(by), comment=comment, at=now)
    silence = make_silence(
        matchers, signed, starts_at=starts_at, ends_at=_end_of(starts_at, span, until)
    )
    with parameters.opened_database(config) as (store, configured):
        silence = store.alerts.add_silence(silence)
        states = store.alerts.states()
    print_records([_silence_dict(silence)], _SILENCE_COLUMNS, as_json=as_json)
    _print_unmatched([silence], states, configured)


@silence_app.command("ls")
def list_silences(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    as_json: parameters.AsJson = False,
) -> None:
    """List silences that hold now or later."""
    from monitor.model.instants import utc_now

    with parameters.opened_database(config) as (store, configured):
        found = store.alerts.silences(ending_after=None if every else utc_now())
        states = store.alerts.states()
    print_records(map(_silence_dict, found), _SILENCE_COLUMNS, as_json=as_json)
    _print_unmatched(found, states, configured)


@silence_app.command("expire")
def expire_silences(
    numbers: Annotated[
        list[int],
        typer.Argument(
            metavar="ID...",
            min=1,
            max=2**63 - 1,
            help="Numbers of silences, as `silence ls` shows them.",
        ),
    ],
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    *,
    as_json: parameters.AsJson = False,
) -> None:
    """End silences now. What still fires is sent."""
    from monitor.model.instants import utc_now

    now = utc_now()
    with parameters.opened_database(config) as (store, _):
        missing = [
            str(number) for number in numbers if not store.alerts.expire_silence(number, now=now)
        ]
    if missing:
        raise ConfigError(
            f"no silence {', '.join(missing)} that has not ended yet: see `rankwatch silence ls`"
        )
    if as_json:
        print_json({"ended": numbers})
    else:
        print_line(f"ended: {', '.join(map(str, numbers))}")


def _print_unmatched(
    silences: Sequence[Silence], states: Sequence[AlertState], comparisons: Sequence[str]
) -> None:
    from monitor.alerts.unmatched import find_unmatched_silences
    from monitor.texts.unmatched_names import write_unmatched

    for each in find_unmatched_silences(silences, states, comparisons):
        print_error(write_unmatched(each))


def _silence_dict(silence: Silence) -> dict[str, object]:
    return pick(silence, "id", "matchers", "author", "comment", "starts_at", "ends_at")


def _end_of(starts_at: datetime, span: str | None, until: str | None) -> datetime:
    if (span is None) == (until is None):
        raise typer.BadParameter(
            "give either --for or --until: a silence without an end is forgotten"
        )
    try:
        return (
            starts_at + parameters.parse_span(span)
            if span is not None
            else parameters.parse_instant(until or "")
        )
    except OverflowError:
        raise typer.BadParameter(f"--for {span} ends after all time: give a shorter one") from None


@notify_app.command("ls")
def list_deliveries(
    receiver: Annotated[
        str | None, typer.Argument(show_default=False, help="Only this receiver; default all.")
    ] = None,
    *,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help=f"Also the newest {_SETTLED} that were given up (dead) or dropped."
        ),
    ] = False,
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    as_json: parameters.AsJson = False,
) -> None:
    """List pending deliveries, and why each waits.

    Why: silenced, inhibited, a dry run, refused. `message` is their text in short.
    """
    with parameters.opened_database(config) as (store, _):
        found = store.outbox.deliveries(
            receiver=receiver, settled=_SETTLED if every else 0, limit=_MOST
        )
    columns = (
        "receiver comparison alert segment change since status attempts> next_attempt_at "
        "reason message"
    )
    print_records(map(_delivery_dict, found), columns, as_json=as_json)


@notify_app.command("test")
def try_receivers(
    receiver: Annotated[
        str | None, typer.Argument(show_default=False, help="Only this receiver; default all.")
    ] = None,
    *,
    config: parameters.Config = parameters.DEFAULT_CONFIG,
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait",
            show_default=False,
            help="How long the test fires, such as 1m: Alertmanager drops what ends sooner than "
            "its group_wait. Without it the end follows at once.",
        ),
    ] = None,
    as_json: parameters.AsJson = False,
) -> None:
    """Send receivers a test: a firing alert, and its end.

    Both are marked as a test, and go past routes, silences and the outbox. Exit code 5 when one of
    them could not be sent it."""
    from monitor.service.clock import SystemClock
    from monitor.service.commands.receiver_test import send_test
    from monitor.settings.loader import load_settings

    span = timedelta(0) if wait is None else parameters.parse_span(wait)
    log_errors_only()
    replies = list(send_test(load_settings(config), receiver, SystemClock(), wait=span))
    outcomes = (
        {
            "receiver": each.receiver,
            "sent": each.status,
            "is_delivered": each.trouble is None,
            "trouble": each.trouble,
        }
        for each in replies
    )
    print_records(outcomes, "receiver sent is_delivered trouble", as_json=as_json)
    if any(each.trouble for each in replies):
        raise typer.Exit(DELIVERY_EXIT)


def _delivery_dict(record: Delivery) -> dict[str, object]:
    change = record.transition
    return {
        "receiver": record.receiver,
        **pick(change, "comparison", "alert", "segment", "severity"),
        "change": "acknowledged"
        if change.is_acknowledgement
        else "ends"
        if change.is_end
        else "starts",
        "since": change.at,
        **pick(
            record, "status", "attempts", "may_be_known", "next_attempt_at", "settled_at", "reason"
        ),
        "message": change.reason,
        **pick(change, "dedup_key", "incident"),
    }
