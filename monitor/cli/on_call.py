"""The commands for people on call: `alerts`, `accept`, `silence` and `notify`."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.cli.command_classes import Command, CommandGroup, ListingGroup
from monitor.cli.completion import DEFAULT_CONFIG, complete_slots
from monitor.cli.output import (
    DELIVERY_EXIT,
    attributes_of,
    join_segments,
    log_errors_only,
    print_error,
    print_json,
    print_line,
    print_objects,
)
from monitor.cli.parameters import (
    AsJson,
    Author,
    Comment,
    ComparisonArgument,
    Config,
    OneComparison,
    OneSegment,
    SomeAlerts,
    author_name,
    is_time_ago,
    opened_database,
    parse_ahead,
    parse_instant,
    parse_span,
    require_known,
)
from monitor.model.errors import ConfigError
from monitor.model.instants import format_second, utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from monitor.model.alerts import AlertNames, AlertState, Transition
    from monitor.model.notifications import Delivery, Silence

_STATE_COLUMNS = (
    "comparison alert segment state acknowledged_by since value> threshold> users> outcome reason"
)
_TRANSITION_COLUMNS = (
    "slot comparison alert segment from_state to_state value> threshold> users> reason"
)
_MOST_REASONS = 4  # how many reasons are listed for the quiet alerts of a comparison

alerts_app = typer.Typer(
    cls=ListingGroup,
    help=(
        "List, acknowledge and resolve alerts. Without a command this is `ls`, and accepts its "
        "options."
    ),
)

silence_app = typer.Typer(
    cls=ListingGroup,
    help="Suppress notifications of alerts for a time. Without a command this is `ls`.",
)
_SILENCE_COLUMNS = "id> matchers starts_at ends_at author comment"
notify_app = typer.Typer(
    cls=CommandGroup,
    help="Test receivers, and list pending deliveries.",
    no_args_is_help=True,
)
_OneReceiver = Annotated[
    str | None, typer.Argument(show_default=False, help="Name of a receiver. Default: all.")
]
_MOST_SETTLED = 100
_MOST_DELIVERIES = 10_000


@alerts_app.command("ls", cls=Command)
def list_alerts(
    comparison: OneComparison = None,
    *,
    config: Config = DEFAULT_CONFIG,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            max=1_000_000,
            help="Number of transitions to show, newest first. Default: all.",
        ),
    ] = None,
    as_json: AsJson = False,
    only_states: Annotated[
        bool, typer.Option("--states", help="Show the state of every alert, without transitions.")
    ] = False,
) -> None:
    """List pending and firing alerts, and every transition.

    The command does not list quiet alerts, but shows how many there are for each reason. With
    --states, the command lists the state of every alert instead of the transitions. Without
    --states, an alert that changed in several segments at once has one line, with the figures of
    the segment with the most users. With --json, the command prints one object for each transition,
    oldest first. With --states --json, the command prints one object for each alert and segment.
    """
    with opened_database(config) as (store, configured):
        states = store.alerts.states(comparison)
        # Transitions that are printed in one line count once.
        most = limit if as_json else None
        transitions = store.alerts.transitions(comparison=comparison, limit=most)
    if not states and not transitions:
        require_known(comparison, configured)
    if not states and not as_json:
        print_line("no alerts yet: they begin with the first run, see `rankwatch run-once`")
        return
    if only_states:
        print_objects(map(asdict, states), _STATE_COLUMNS, as_json=as_json)
        return
    if not as_json:
        _print_active([state for state in states if state.state != "quiet"])
        for line in _quiet_lines(states, configured):
            print_line(line)
        print_line()
    rows = _transition_rows(transitions, as_json=as_json)
    print_objects(
        rows[-(limit or len(rows)) :],
        _TRANSITION_COLUMNS,
        as_json=as_json,
        title="Transitions",
        empty="no transitions yet: no alert has changed its state",
    )


def _print_active(states: Sequence[AlertState]) -> None:
    """Print pending and firing alerts. A reason that several alerts share is printed once."""
    rows = join_segments(
        map(asdict, states), "comparison alert state acknowledged_by since outcome"
    )
    shown_by: dict[object, object] = {}
    for row in rows:
        first = shown_by.setdefault((row["comparison"], row["reason"]), row["alert"])
        if first != row["alert"]:
            row["reason"] = f"see {first}"
    print_objects(
        rows,
        _STATE_COLUMNS,
        as_json=False,
        title="States",
        empty="no alert is pending or firing",
        omits_empty_columns=True,
    )


def _transition_rows(transitions: Sequence[Transition], *, as_json: bool) -> list[dict[str, Any]]:
    rows = list(map(asdict, transitions))
    return rows if as_json else join_segments(rows, "slot comparison alert from_state to_state")


def _quiet_lines(states: Sequence[AlertState], configured: Sequence[str]) -> list[str]:
    """Return one line for each comparison. It counts the comparison's quiet alerts by reason.

    If a comparison is not in ``configured``, the line says that nobody watches it.
    """
    reasons_of: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for state in states:
        if state.state == "quiet":
            reason = state.outcome.replace("_", " ")
            if state.outcome == "too_few":
                reason = state.reason
            reasons_of[state.comparison][reason] += 1
    lines = []
    for name, reasons in reasons_of.items():
        if name not in configured:
            lines.append(f"{name}: not watched, because it is not in the configuration")
            continue
        parts = [f"{count:,} {reason}" for reason, count in reasons.most_common(_MOST_REASONS)]
        if len(reasons) > _MOST_REASONS:
            parts.append("...")
        lines.append(f"{name}: {reasons.total():,} quiet ({'; '.join(parts)})")
    return lines


def _changing_command(*, resolves: bool) -> Callable[..., None]:
    """Return the function of `alerts resolve` or `alerts ack`. Both commands have its options.

    The function changes the selected firing alerts, and prints what changed.
    """

    def change_alerts(  # noqa: PLR0913 - the command's options
        comparison: OneComparison = None,
        *,
        alert: SomeAlerts = None,
        segment: OneSegment = None,
        by: Author = None,
        comment: Comment = "",
        config: Config = DEFAULT_CONFIG,
        as_json: AsJson = False,
    ) -> None:
        from monitor.pipeline.alert_actions import AlertAction, change_firing

        action = AlertAction(author=author_name(by), comment=comment, at=utc_now())

        def is_selected(start: Transition) -> bool:
            return (
                comparison in (None, start.comparison)
                and (not alert or start.alert in alert)
                and segment in (None, start.segment)
            )

        with opened_database(config) as (store, _):
            changed = change_firing(store.alerts, is_selected, action, resolves=resolves)
        if not changed:
            which = (
                "" if resolves else f", or {action.author} has already acknowledged all that match"
            )
            raise ConfigError(f"no firing alert matches{which}: choose one from `rankwatch alerts`")
        rows = _transition_rows(changed, as_json=as_json)
        print_objects(rows, _TRANSITION_COLUMNS, as_json=as_json)

    return change_alerts


alerts_app.command(
    "ack",
    cls=Command,
    help=(
        "Acknowledge firing alerts. rankwatch notifies again about acknowledged alerts only if "
        "their incident becomes worse. Receivers that support acknowledgements are also notified "
        "of the acknowledgement."
    ),
)(_changing_command(resolves=False))
alerts_app.command(
    "resolve",
    cls=Command,
    help=(
        "Resolve firing alerts by hand. If later runs are in breach, new alerts fire. To "
        "suppress alerts, use `silence`."
    ),
)(_changing_command(resolves=True))


def accept(  # noqa: PLR0913 - the command's options
    comparison: ComparisonArgument,
    *,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="TIME",
            autocompletion=complete_slots,
            help="Slot of the first run with the change. 2d means the first run in the last two "
            "days.",
        ),
    ],
    undo: Annotated[
        bool, typer.Option("--undo", help="Undo the acceptance that begins with this slot.")
    ] = False,
    by: Author = None,
    comment: Comment = "",
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Accept a change of the lists as normal.

    Rules then learn only from the run of this slot and from later runs. Alerts about the change end
    with the next run that resembles the accepted runs. Accepting the same slot again has no effect.
    `--undo` takes effect with the next run. `rankwatch alerts` and `rankwatch show` list each
    accepted change, with the person who accepted it and the time.
    """
    from monitor.model.alerts import accepted_level
    from monitor.pipeline.alert_actions import AlertAction

    slot = parse_instant(since)
    now = utc_now()
    if slot > now:
        raise typer.BadParameter(
            f"--since {since} is in the future: choose the slot of a run from `rankwatch runs "
            f"{comparison}`"
        )
    with opened_database(config) as (store, configured):
        finished = store.history.finished_runs(
            comparison,
            after=slot - timedelta(microseconds=1),
            limit=1,
        )
        run = finished[0] if finished else None
        if run is None:
            require_known(comparison, configured)
        elif is_time_ago(since):
            slot = run.slot
        if undo:
            level = store.alerts.undo_acceptance(comparison, slot)
            if level is None:
                raise ConfigError(
                    f"{comparison} has no acceptance that begins with {format_second(slot)}: see "
                    f"`rankwatch show {comparison}`"
                )
        else:
            if run is None or run.slot != slot or run.status != "ok":
                raise ConfigError(
                    f"no ok run of {comparison} has the slot {format_second(slot)}: see `rankwatch "
                    f"runs {comparison}`"
                )
            action = AlertAction(author=author_name(by), comment=comment, at=now)
            reason = action.reason("accepted")
            level = store.alerts.accept(accepted_level(comparison, slot, reason, now))
    print_objects(
        [attributes_of(level, "comparison", "slot", "at", "reason")],
        "comparison slot at reason",
        as_json=as_json,
    )


@silence_app.command("add", cls=Command)
def add_silence(  # noqa: PLR0913 - the command's options
    matchers: Annotated[
        list[str],
        typer.Argument(
            metavar="MATCHER...",
            help="name=value, name!=value, name=~regex or name!~regex. An alert must match all "
            "matchers. Possible names: alert, comparison, segment, severity, metric, statistic, "
            "labels of the rule.",
        ),
    ],
    *,
    span: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long the silence lasts, such as 2h."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="When the silence ends: a time, or a duration from now, such as 2h. A date means "
            "its midnight in UTC. Replaces --for.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="When the silence begins: a time, or a duration from now, such as 2h. Default: "
            "now.",
        ),
    ] = None,
    by: Author = None,
    comment: Comment = "",
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Suppress notifications of alerts for a time.

    Example: rankwatch silence add comparison=home-feed segment=country=UK --for 2h

    Receivers are notified at the end of the silence if an alert began during the silence and still
    fires. Receivers are not notified of alerts that begin and end during the silence.
    """
    from monitor.pipeline.alert_actions import AlertAction, make_silence

    now = utc_now()
    starts_at = now if since is None else parse_ahead(since)
    action = AlertAction(author=author_name(by), comment=comment, at=now)
    silence = make_silence(
        matchers,
        action,
        starts_at=starts_at,
        ends_at=_end_of(starts_at, span, until),
    )
    with opened_database(config) as (store, _):
        silence = store.alerts.add_silence(silence)
        judged_alerts = store.alerts.names()
    print_objects([asdict(silence)], _SILENCE_COLUMNS, as_json=as_json)
    _print_unmatched([silence], judged_alerts, config)


@silence_app.command("ls", cls=Command)
def list_silences(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also list ended silences.")] = False,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List silences that are active now or begin later."""
    with opened_database(config) as (store, _):
        silences = store.alerts.silences(ending_after=None if every else utc_now())
        judged_alerts = store.alerts.names()
    print_objects(
        map(asdict, silences),
        _SILENCE_COLUMNS,
        as_json=as_json,
        empty="no silences: `rankwatch silence add alert=NAME --for 2h` adds one",
    )
    _print_unmatched(silences, judged_alerts, config)


@silence_app.command("expire", cls=Command)
def expire_silences(
    numbers: Annotated[
        list[int],
        typer.Argument(
            metavar="ID...",
            min=1,
            max=2**63 - 1,
            help="Numbers of silences, from `silence ls`.",
        ),
    ],
    config: Config = DEFAULT_CONFIG,
    *,
    as_json: AsJson = False,
) -> None:
    """End silences now. rankwatch then notifies receivers of alerts that still fire."""
    now = utc_now()
    with opened_database(config) as (store, _):
        missing = []
        for number in numbers:
            if not store.alerts.expire_silence(number, now=now):
                missing.append(str(number))
    if missing:
        raise ConfigError(
            f"silence {', '.join(missing)} has ended or does not exist: choose one from "
            "`rankwatch silence ls`"
        )
    if as_json:
        print_json({"expired": numbers})
    else:
        print_line(f"ended: {', '.join(map(str, numbers))}")


def _print_unmatched(
    silences: Sequence[Silence],
    judged_alerts: Sequence[AlertNames],
    config: Path,
) -> None:
    """Print a warning for each silence that matches no alert so far."""
    if not silences:
        return
    from monitor.alerts.unmatched_names import find_unmatched_silences
    from monitor.settings.loader import load_settings
    from monitor.settings.translation import comparisons_of
    from monitor.texts.unmatched_names import write_unmatched

    try:
        comparisons = comparisons_of(load_settings(config))
    except ConfigError:
        print_error(
            "silences were not compared with alerts, because the configuration cannot be loaded: "
            "see `rankwatch check`"
        )
        return
    for unmatched in find_unmatched_silences(silences, judged_alerts, comparisons):
        print_error(write_unmatched(unmatched))


def _end_of(starts_at: datetime, span: str | None, until: str | None) -> datetime:
    """Return when the silence ends. Raises BadParameter unless exactly one option is given."""
    if (span is None) == (until is None):
        raise typer.BadParameter("a silence needs one end: give either --for or --until")
    if until is not None:
        return parse_ahead(until)
    try:
        return starts_at + parse_span(span or "")
    except OverflowError:
        raise typer.BadParameter(f"--for {span} is too long: give a shorter duration") from None


@notify_app.command("ls", cls=Command)
def list_deliveries(
    receiver: _OneReceiver = None,
    *,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help=f"Also list the newest {_MOST_SETTLED} deliveries that are dead or were dropped.",
        ),
    ] = False,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List pending deliveries, and why they are pending.

    For example, a delivery is pending if the alert is silenced or inhibited, if the rule is a dry
    run, or if the receiver rejected the message. The column `message` shows the reason for the
    alert.
    """
    with opened_database(config) as (store, _):
        deliveries = store.outbox.deliveries(
            receiver=receiver, given_up_limit=_MOST_SETTLED if every else 0, limit=_MOST_DELIVERIES
        )
        empty = "no pending deliveries. `rankwatch notify test` sends a test"
        if receiver is not None and receiver not in store.outbox.receiver_health():
            empty = (
                f"no recent message to a receiver named {receiver!r}: check the name, or send a "
                "test with `rankwatch notify test`"
            )
    columns = (
        "receiver comparison alert segment change at status attempts> next_attempt_at reason "
        "message"
    )
    if as_json:
        print_json(*deliveries)
    else:
        print_objects(
            map(_delivery_row, deliveries),
            columns,
            as_json=False,
            empty=empty,
        )


@notify_app.command("test", cls=Command)
def try_receivers(
    receiver: _OneReceiver = None,
    *,
    config: Config = DEFAULT_CONFIG,
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait",
            metavar="DURATION",
            show_default=False,
            help="How long the test alert fires, such as 1m. Default: the test alert ends at once. "
            "Alertmanager drops alerts that end before its group_wait.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send the start and the end of a test alert to receivers.

    Both messages say that they are tests. rankwatch sends both messages directly to the receivers,
    so routes, silences and the outbox have no effect. The exit code is 5 if a receiver did not
    accept a message.
    """
    from monitor.service.clock import SystemClock
    from monitor.service.commands.receiver_test import send_test
    from monitor.settings.loader import load_settings

    span = timedelta(0) if wait is None else parse_span(wait)
    log_errors_only()
    replies = list(send_test(load_settings(config), receiver, SystemClock(), wait=span))
    outcomes = []
    for reply in replies:
        outcomes.append(asdict(reply) | {"is_delivered": reply.reason is None})
    print_objects(outcomes, "receiver status is_delivered reason", as_json=as_json)
    if any(reply.reason for reply in replies):
        raise typer.Exit(DELIVERY_EXIT)


def _delivery_row(delivery: Delivery) -> dict[str, object]:
    """Return a row of `notify ls`."""
    transition = delivery.transition
    change = "starts"
    if transition.is_acknowledgement:
        change = "acknowledged"
    elif transition.is_end:
        change = "ends"
    message = {"change": change, "message": transition.reason}
    return asdict(transition) | asdict(delivery) | message
