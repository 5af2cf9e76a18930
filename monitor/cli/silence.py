"""The commands of `silence`: add, list and expire silences, which hold alerts back for a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import pick, print_json, print_line, print_records
from monitor.cli.parameters import (
    DEFAULT_CONFIG,
    AsJson,
    Author,
    Comment,
    Config,
    ListingGroup,
    author_name,
    opened_database,
    parse_instant,
    parse_span,
)
from monitor.errors import ConfigError

if TYPE_CHECKING:
    from monitor.model.notifications import Silence

app = typer.Typer(
    cls=ListingGroup,
    help="Add, list and expire silences, which hold alerts back. Without a command: `ls`.",
)


@app.command("add")
def add_silence(  # noqa: PLR0913 - the command's options
    matchers: Annotated[
        list[str],
        typer.Argument(
            metavar="MATCHER...",
            help="All of them must match: name=value, name!=value, name=~regex or name!~regex, of alert, comparison, segment, "
            "severity, metric, statistic or a label of the rule.",
        ),
    ],
    *,
    span: Annotated[str | None, typer.Option("--for", help="How long, such as 2h.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Instead of --for: its end, ISO 8601.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="Its beginning, ISO 8601; default now.")] = None,
    by: Author = None,
    comment: Comment = "",
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Hold alerts back for a time. What still fires when it ends is sent then; what ended meanwhile never is."""
    from monitor.pipeline.alert_actions import Signature, make_silence

    now = datetime.now(UTC)
    starts_at = now if start is None else parse_instant(start)
    signed = Signature(author=author_name(by), comment=comment, at=now)
    silence = make_silence(matchers, signed, starts_at=starts_at, ends_at=_end(starts_at, span, until))
    with opened_database(config) as (store, _):
        print_records([_as_dict(store.alerts.add_silence(silence))], _COLUMNS, as_json=as_json)


@app.command("ls")
def list_silences(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List silences that hold now or later."""
    with opened_database(config) as (store, _):
        found = store.alerts.silences(ending_after=None if every else datetime.now(UTC))
    print_records(map(_as_dict, found), _COLUMNS, as_json=as_json)


@app.command("expire")
def expire_silences(
    numbers: Annotated[
        list[int],
        typer.Argument(metavar="ID...", min=1, max=2**63 - 1, help="Numbers of silences, as `silence ls` shows them."),
    ],
    config: Config = DEFAULT_CONFIG,
    *,
    as_json: AsJson = False,
) -> None:
    """End silences now. What still fires is sent."""
    now = datetime.now(UTC)
    with opened_database(config) as (store, _):
        missing = [str(number) for number in numbers if not store.alerts.expire_silence(number, now=now)]
    if missing:
        msg = f"no silence {', '.join(missing)} that has not ended yet: see `rankwatch silence ls`"
        raise ConfigError(msg)
    if as_json:
        print_json({"ended": numbers})
    else:
        print_line(f"ended: {', '.join(map(str, numbers))}")


_COLUMNS = "id> matchers starts_at ends_at author comment"


def _as_dict(silence: Silence) -> dict[str, object]:
    return pick(silence, "id", "matchers", "author", "comment", "starts_at", "ends_at")


def _end(starts_at: datetime, span: str | None, until: str | None) -> datetime:
    if (span is None) == (until is None):
        msg = "give either --for or --until: a silence without an end is forgotten"
        raise typer.BadParameter(msg)
    try:
        return starts_at + parse_span(span) if span is not None else parse_instant(until or "")
    except OverflowError:
        msg = f"--for {span} ends after all time: give a shorter one"
        raise typer.BadParameter(msg) from None
