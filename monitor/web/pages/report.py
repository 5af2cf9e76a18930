"""A report: pages of one comparison, of some of its runs and of their users in one file, which needs no server."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from monitor.model.alerts import AlertState, State, Transition
from monitor.model.instants import format_instant
from monitor.model.runs import LatestRun
from monitor.web.pages.comparison import read_comparison_page
from monitor.web.pages.rendering import read_static, render, show_instant
from monitor.web.pages.run import read_run_page, read_user_page
from monitor.web.pages.site import AbsentPageError, Query, Site, comparison_url, run_url, user_url

MOST_BYTES = 1_900_000
"""Users' pages are left out beyond it."""
MOST_RUNS, MOST_USERS = 6, 6
_USER_RUNS = 40

_OF_A_SERVER = re.compile(r'<form\b.*?</form>| data-live\b| rel="(?:prev|next)"', re.DOTALL)
_LINK = re.compile(r' href="(/[^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One page of the report: its address on a server, and what it shows by which template."""

    address: str
    title: str
    template: str
    page: Any


def make_report(
    site: Site,
    name: str,
    *,
    slot: datetime | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> str:
    """How the comparison stood at its run of ``slot``, else its newest up to ``until``: with its users who lie farthest apart.

    With ``since`` runs in which alerts began since then are shown too. AbsentPageError where no run had ended by then.
    """
    if slot is not None:
        until = site.run_at(name, slot).slot
    latest = next(iter(site.store.history.latest([name], until=until)), None)
    if latest is None:
        when = "" if until is None else f" up to {show_instant(until)}"
        raise AbsentPageError(
            f"no finished run of a comparison named {name!r} is stored{when}; see rankwatch runs"
        )
    slot = latest.run.slot
    changes = [
        each
        for each in site.store.alerts.transitions(comparison=name, limit=None)
        if each.slot <= slot
    ]
    then = replace(latest, states=tuple(_state_at(each, changes) for each in latest.states))
    starts = {
        each.slot for each in changes if each.is_start and since is not None and each.slot >= since
    }
    sections = _sections(
        replace(site, latest=lambda: (then,), prefix=""),
        then,
        since,
        sorted({slot, *starts})[-MOST_RUNS:],
    )
    return in_one_file(f"{name} at {show_instant(slot)}", sections)


def _state_at(state: AlertState, changes: Sequence[Transition]) -> AlertState:
    """The state as the last of these changes left it."""
    mine = [each for each in changes if (each.alert, each.segment) == (state.alert, state.segment)]
    if not mine:
        return replace(state, state=State.QUIET)
    last = mine[-1]
    return replace(
        state,
        state=last.to_state,
        since=last.since,
        reason=last.reason,
        value=last.value,
        incident=last.incident,
    )


def _sections(
    site: Site, latest: LatestRun, since: datetime | None, slots: Sequence[datetime]
) -> Iterator[Section]:
    name = latest.run.comparison
    chosen = {"to": format_instant(latest.run.slot)} | (
        {} if since is None else {"from": format_instant(since)}
    )
    whole = read_comparison_page(site, Query(path={"name": name}, chosen=chosen))
    yield Section(
        address=comparison_url(name), title="over time", template="comparison.html", page=whole
    )
    runs = [
        read_run_page(site, Query(path={"name": name, "slot": format_instant(slot)}, chosen={}))
        for slot in slots
    ]
    for run in reversed(runs):
        slot = run.run.slot
        yield Section(
            address=run_url(name, slot),
            title=f"run of {show_instant(slot)}",
            template="run.html",
            page=run,
        )
        for each in run.worst[:MOST_USERS]:
            query = Query(
                path={"name": name, "user": each.user}, chosen={"slot": format_instant(slot)}
            )
            page = read_user_page(site, query)
            page = replace(page, history=page.history[-_USER_RUNS:])
            yield Section(
                address=user_url(name, each.user, slot),
                title=f"user {each.user}",
                template="user.html",
                page=page,
            )


def in_one_file(title: str, sections: Iterable[Section]) -> str:
    """A page of these sections, with style and script, and links from one to the other."""
    style, script = read_static("rankwatch.css"), read_static("rankwatch.js")
    parts: list[str] = []
    places: dict[str, str] = {}
    contents, left_out, size = [], 0, len(style) + len(script)
    for number, section in enumerate(sections):
        anchor = f"part-{number}"
        part = render(
            section.template, page=section.page, prefix="", layout="section.html", anchor=anchor
        )
        if section.template == "user.html" and size + len(part.encode()) > MOST_BYTES:
            left_out += 1
            continue
        size += len(part.encode())
        parts.append(part)
        places[section.address] = anchor
        contents.append((anchor, section.title))
    body = Markup("".join(_without_server(part, places) for part in parts))  # noqa: S704 - the templates escaped it
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    return render(
        "report.html",
        title=title,
        contents=contents,
        body=body,
        left_out=left_out,
        policy=policy,
        prefix="",
        style=Markup(style),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
    )


def _without_server(part: str, places: Mapping[str, str]) -> str:
    """The part with links to other parts, and with text where a link led to a server.

    Quotes within text are escaped.
    """

    def lead(link: re.Match[str]) -> str:
        anchor = places.get(Markup(link[1]).unescape())  # noqa: S704 - to be looked up
        return "" if anchor is None else f' href="#{anchor}"'

    return _LINK.sub(lead, _OF_A_SERVER.sub("", part))


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
