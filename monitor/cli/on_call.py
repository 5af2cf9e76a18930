"""Commands for who is on call: `alerts` and `silence`."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from monitor.cli import stored_runs
from monitor.cli.output import instant, print_json, print_line, print_table
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, OneComparison, OneName, only_one, parse_instant, parse_span
from monitor.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monitor.model import Silence, Transition


class ListingGroup(TyperGroup):
    """A group of commands that lists when none of them is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of click, which typer keeps to itself
        """Put ``ls`` before what names no command."""
        is_named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["ls", *args])


alerts_app = typer.Typer(
    cls=ListingGroup,
    help="Show alerts, say that you look after them, end them. Without a command: `ls`, whose options are those of `alerts`.",
)
silence_app = typer.Typer(
    cls=ListingGroup, help="Hold back what on-call knows already: add, list and end silences. Without a command: `ls`."
)
alerts_app.command("ls")(stored_runs.alerts)

OneAlert = Annotated[str | None, typer.Option("--alert", "-a", help="Only alerts of this name; default all.")]
OneSegment = Annotated[str | None, typer.Option("--segment", "-s", help="Only this segment; default all of them.")]
Author = Annotated[str | None, typer.Option("--by", help="Who says so; default the account you use.", show_default=False)]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why, for colleagues.")]


@alerts_app.command()
def ack(  # noqa: PLR0913, PLR0917 - the command's options
    name: OneName = None,
    alert: OneAlert = None,
    segment: OneSegment = None,
    by: Author = None,
    comment: Comment = "",
    config: Config = DEFAULT_CONFIG,
    comparison: OneComparison = None,
    as_json: AsJson = False,  # noqa: FBT002 - typer's flag
) -> None:
    """Say that you look after what fires: nobody is told of it again, until it ends. Receivers that know of this are told."""
    _act("acknowledged", only_one(name, comparison), alert, segment, by, comment, config, as_json=as_json)


@alerts_app.command()
def resolve(  # noqa: PLR0913, PLR0917 - the command's options
    name: OneName = None,
    alert: OneAlert = None,
    segment: OneSegment = None,
    by: Author = None,
    comment: Comment = "",
    config: Config = DEFAULT_CONFIG,
    comparison: OneComparison = None,
    as_json: AsJson = False,  # noqa: FBT002 - typer's flag
) -> None:
    """End what fires by hand. It fires again, as a new alert, if the next runs are in breach; to hold it back use `silence`."""
    _act("resolved", only_one(name, comparison), alert, segment, by, comment, config, as_json=as_json)


@silence_app.command()
def add(  # noqa: PLR0913 - the command's options
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
    """Hold back alerts for a time. What still fires at its end is told then; what ended meanwhile never is."""
    from monitor.alerts import Matcher
    from monitor.model import Silence
    from monitor.settings import load_settings
    from monitor.storage import opened_store

    now = datetime.now(UTC)
    starts_at = now if start is None else parse_instant(start)
    wanted = Silence(
        id=0,
        matchers=tuple(str(Matcher.parse(text)) for text in matchers),
        author=_author(by),
        comment=comment,
        created_at=now,
        starts_at=starts_at,
        ends_at=_end(starts_at, now, span, until),
    )
    with opened_store(load_settings(config).database) as store:
        _print_silences([store.alerts.add_silence(wanted)], as_json=as_json)


@silence_app.command()
def ls(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List silences that hold now or later."""
    from monitor.settings import load_settings
    from monitor.storage import opened_store

    with opened_store(load_settings(config).database) as store:
        found = store.alerts.silences(ending_after=None if every else datetime.now(UTC))
    _print_silences(found, as_json=as_json)


@silence_app.command()
def expire(
    numbers: Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers of silences, as `silence ls` shows them.")],
    config: Config = DEFAULT_CONFIG,
    *,
    as_json: AsJson = False,
) -> None:
    """End silences now. What still fires is told."""
    from monitor.settings import load_settings
    from monitor.storage import opened_store

    now = datetime.now(UTC)
    with opened_store(load_settings(config).database) as store:
        missing = [str(number) for number in numbers if not store.alerts.expire_silence(number, now=now)]
    if missing:
        msg = f"no silence {', '.join(missing)} that has not ended yet: see `rankwatch silence ls`"
        raise ConfigError(msg)
    if as_json:
        print_json({"ended": numbers})
    else:
        print_line(f"ended: {', '.join(map(str, numbers))}")


def _act(  # noqa: PLR0913, PLR0917 - the options of both commands
    verb: str,
    comparison: str | None,
    alert: str | None,
    segment: str | None,
    by: str | None,
    comment: str,
    config: Config,
    *,
    as_json: bool,
) -> None:
    from monitor.settings import load_settings
    from monitor.storage import opened_store

    author, now = _author(by), datetime.now(UTC)
    reason = f"{verb} by {author}" + (f": {comment}" if comment else "")
    with opened_store(load_settings(config).database) as store:
        chosen: dict[str, list[tuple[str, str]]] = {}
        for each in store.alerts.firing():
            if comparison in (None, each.comparison) and alert in (None, each.alert) and segment in (None, each.segment):
                chosen.setdefault(each.comparison, []).append((each.alert, each.segment))
        changed: list[Transition] = []
        for name, watches in chosen.items():
            if verb == "resolved":
                changed += store.alerts.resolve(name, watches, reason=reason, at=now)
            else:
                changed += store.alerts.acknowledge(name, watches, author=author, reason=reason, at=now)
    if not changed:
        msg = "nothing that fires is meant: see `rankwatch alerts`"
        raise ConfigError(msg)
    _print_changed(changed, as_json=as_json)


def _print_changed(changed: Iterable[Transition], *, as_json: bool) -> None:
    if as_json:
        for each in changed:
            print_json(stored_runs.transition_dict(each))
        return
    columns = ("comparison", "alert", "segment", "firing since", "now")
    print_table(columns, ((each.comparison, each.alert, each.segment, instant(each.since), each.reason) for each in changed))


def _print_silences(found: Iterable[Silence], *, as_json: bool) -> None:
    if as_json:
        for each in found:
            print_json({
                "id": each.id,
                "matchers": each.matchers,
                "author": each.author,
                "comment": each.comment,
                "starts_at": each.starts_at,
                "ends_at": each.ends_at,
            })  # fmt: skip
        return
    columns = ("id>", "matchers", "from", "until", "by", "comment")
    rows = (
        (str(each.id), " ".join(each.matchers), instant(each.starts_at), instant(each.ends_at), each.author, each.comment)
        for each in found
    )
    print_table(columns, rows)


def _author(by: str | None) -> str:
    """Who says so; an account without a name has to tell."""
    try:
        author = by or getpass.getuser()
    except (OSError, KeyError):
        author = ""
    if not author.strip():
        msg = "your account has no name: give yours with --by"
        raise typer.BadParameter(msg)
    return author.strip()


def _end(starts_at: datetime, now: datetime, span: str | None, until: str | None) -> datetime:
    if (span is None) == (until is None):
        msg = "give either --for or --until: a silence without an end is forgotten"
        raise typer.BadParameter(msg)
    try:
        end = starts_at + parse_span(span) if span is not None else parse_instant(until or "")
    except OverflowError:
        msg = f"--for {span} ends after all time: give a shorter one"
        raise typer.BadParameter(msg) from None
    if end <= max(starts_at, now):
        msg = f"its end {instant(end)} is not after its beginning and now: nothing would be held back"
        raise typer.BadParameter(msg)
    return end
