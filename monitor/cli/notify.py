"""The commands of `notify`: send a test to receivers, and list the deliveries of the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.exit_codes import DELIVERY_EXIT
from monitor.cli.output import log_errors_only, pick, print_records
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, opened_database, parse_span

if TYPE_CHECKING:
    from monitor.model.alerts import Transition
    from monitor.model.notifications import DeliveryRecord

app = typer.Typer(help="Send a test to receivers; list pending deliveries.", no_args_is_help=True)
_SETTLED = 100
_MOST = 10_000


@app.command("ls")
def list_deliveries(
    receiver: Annotated[str | None, typer.Argument(show_default=False, help="Only this receiver; default all.")] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help=f"Also the newest {_SETTLED} that were given up (dead) or dropped.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List pending deliveries, and why each waits.

    Why: silenced, inhibited, a dry run, refused. `message` is their text in short.
    """
    with opened_database(config) as (store, _):
        found = store.outbox.deliveries(receiver=receiver, settled=_SETTLED if every else 0, limit=_MOST)
    columns = "receiver comparison alert segment change since status attempts> next_attempt_at reason message"
    print_records(map(_record_dict, found), columns, as_json=as_json)


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
            help="How long the test fires, such as 1m: Alertmanager drops what ends sooner than its "
            "group_wait. Without it the end follows at once.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send receivers a test: a firing alert, and its end.

    Both are marked as a test, and go past routes, silences and the outbox. Exit code 5 when one of them could not be sent it.
    """
    from datetime import timedelta

    from monitor.service.clock import SystemClock
    from monitor.service.commands.receiver_test import send_test
    from monitor.settings.loader import load_settings

    span = timedelta(0) if wait is None else parse_span(wait)
    log_errors_only()
    replies = list(send_test(load_settings(config), receiver, SystemClock(), wait=span))
    outcomes = (
        {"receiver": each.receiver, "sent": each.status, "is_delivered": each.trouble is None, "trouble": each.trouble}
        for each in replies
    )
    print_records(outcomes, "receiver sent is_delivered trouble", as_json=as_json)
    if any(each.trouble for each in replies):
        raise typer.Exit(DELIVERY_EXIT)


def _record_dict(record: DeliveryRecord) -> dict[str, object]:
    change = record.transition
    return {
        "receiver": record.receiver,
        **pick(change, "comparison", "alert", "segment", "severity"),
        "change": _change_of(change),
        "since": change.at,
        **pick(record, "status", "attempts", "may_be_known", "next_attempt_at", "settled_at", "reason"),
        "message": change.reason,
        **pick(change, "dedup_key", "incident"),
    }


def _change_of(change: Transition) -> str:
    return "acknowledged" if change.is_acknowledgement else "ends" if change.is_end else "starts"
