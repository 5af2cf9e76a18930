"""The commands of `notify`: send a test to receivers, and list the deliveries of the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, print_json, print_table
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_span

if TYPE_CHECKING:
    from monitor.model import DeliveryRecord, Transition
    from monitor.service.commands.receiver_test import ReceiverReply

app = typer.Typer(help="Try out who is told, and see what waits for whom.", no_args_is_help=True)
_NOT_DELIVERED_EXIT = 5
_SETTLED = 100
_MOST = 10_000


@app.callback()
def _group() -> None:
    """Try out who is told, and see what waits for whom."""


@app.command("ls")
def ls(
    receiver: Annotated[str | None, typer.Argument(show_default=False, help="Only this receiver; default all.")] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help=f"Also the newest {_SETTLED} that were given up (dead) or dropped.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List what is owed to receivers, and why they were not told: silenced, inhibited, a dry run, refused.

    `message` is what it would say in short.
    """
    from monitor.settings import load_settings
    from monitor.storage import opened_store

    with opened_store(load_settings(config).database) as store:
        found = store.outbox.deliveries(receiver=receiver, settled=_SETTLED if every else 0, limit=_MOST)
    if as_json:
        for each in found:
            print_json(_record_dict(each))
        return
    columns = (
        "receiver",
        "comparison",
        "alert",
        "segment",
        "change",
        "since",
        "status",
        "attempts>",
        "next",
        "reason",
        "message",
    )
    print_table(columns, (_row_of(each) for each in found))


@app.command("test")
def try_receivers(
    receiver: Annotated[str | None, typer.Argument(show_default=False, help="Only this receiver; default all.")] = None,
    *,
    config: Config = DEFAULT_CONFIG,
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait",
            show_default=False,
            help="How long the test fires, such as 1m: Alertmanager tells nobody what ends sooner "
            "than its group_wait. Without it the end follows at once.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell receivers a firing that is marked as a test, and its end, past routes, silences and the outbox.

    Exit code 5 when one of them did not take it.
    """
    from datetime import timedelta

    from monitor.service.clock import SystemClock
    from monitor.service.commands.receiver_test import send_test
    from monitor.settings import load_settings

    span = timedelta(0) if wait is None else parse_span(wait)
    told = list(send_test(load_settings(config), receiver, SystemClock(), wait=span))
    if as_json:
        for each in told:
            print_json(_reply_dict(each))
    else:
        print_table(("receiver", "told", "outcome"), ((each.receiver, each.status, each.trouble or "taken") for each in told))
    if any(each.trouble for each in told):
        raise typer.Exit(_NOT_DELIVERED_EXIT)


def _row_of(record: DeliveryRecord) -> tuple[str, ...]:
    change, again = record.transition, record.next_attempt_at
    return (
        record.receiver,
        change.comparison,
        change.alert,
        change.segment,
        _change_of(change),
        instant(change.at),
        record.status,
        str(record.attempts),
        "-" if again is None else instant(again),
        record.reason or "-",
        change.reason,
    )


def _record_dict(record: DeliveryRecord) -> dict[str, object]:
    change = record.transition
    return {
        "receiver": record.receiver,
        "comparison": change.comparison,
        "alert": change.alert,
        "segment": change.segment,
        "severity": change.severity.value,
        "change": _change_of(change),
        "since": change.at,
        "status": record.status.value,
        "attempts": record.attempts,
        "may_be_known": record.may_be_known,
        "next_attempt_at": record.next_attempt_at,
        "settled_at": record.settled_at,
        "reason": record.reason,
        "message": change.reason,
        "dedup_key": change.dedup_key,
        "incident": change.incident,
    }


def _change_of(change: Transition) -> str:
    return "acknowledged" if change.is_acknowledgement else "ends" if change.is_end else "starts"


def _reply_dict(told: ReceiverReply) -> dict[str, object]:
    return {"receiver": told.receiver, "told": told.status.value, "is_taken": told.trouble is None, "trouble": told.trouble}
