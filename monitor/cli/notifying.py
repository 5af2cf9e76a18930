"""The commands of `notify`: try out who is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import print_json, print_table
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_span

if TYPE_CHECKING:
    from monitor.service.notifying import Told

app = typer.Typer(help="Try out who is told.", no_args_is_help=True)
_NOT_TAKEN = 5


@app.callback()
def _group() -> None:
    """Try out who is told."""


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
    from monitor.service.notifying import send_test
    from monitor.settings import load

    span = timedelta(0) if wait is None else parse_span(wait)
    told = list(send_test(load(config), receiver, SystemClock(), wait=span))
    if as_json:
        for each in told:
            print_json(_as_dict(each))
    else:
        print_table(("receiver", "told", "outcome"), ((each.receiver, each.status, each.trouble or "taken") for each in told))
    if any(each.trouble for each in told):
        raise typer.Exit(_NOT_TAKEN)


def _as_dict(told: Told) -> dict[str, object]:
    return {"receiver": told.receiver, "told": told.status.value, "is_taken": told.trouble is None, "trouble": told.trouble}
