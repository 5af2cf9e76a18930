"""Makes a report: one file with the pages of a comparison, of its runs and of its users."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from monitor.model.alerts import AlertState, State, Transition
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.runs import LatestRun
from monitor.web.pages.comparison import read_comparison_page
from monitor.web.pages.rendering import read_static, render, show_instant
from monitor.web.pages.run import read_run_page, read_user_page
from monitor.web.pages.site import (
    AbsentPageError,
    PageRequest,
    Site,
    comparison_url,
    run_url,
    user_url,
)

MOST_REPORT_BYTES = 1_900_000
"""If a page of a user would make the report larger than this, the page is left out."""
MOST_REPORT_RUNS = 6
MOST_REPORT_USERS = 6
_USER_RUNS = 40

# The pattern matches no name or text, because a " is escaped in names and texts.
_LINK = re.compile(r' href="(/[^"]*)"')


@immutable
class Section:
    """One page of the report: the address that it has on a server, its template and its data."""

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
    """Return a report on one run of a comparison, as HTML.

    The run has this ``slot``. If ``slot`` is None, it is the newest finished run up to ``until``.
    The report also shows the users of the run with the least similar lists. With ``since``, the
    report also shows the runs since then in which alerts began.

    Raises AbsentPageError if there is no such run, or if the run at ``slot`` has not ended.
    """
    if slot is None:
        run = _newest_run(site, name, until)
    else:
        run = _finished_run_at(site, name, slot)
    stored = site.store.alerts.transitions(comparison=name, limit=None)
    transitions = [transition for transition in stored if transition.slot <= run.slot]
    slots = {run.slot}
    if since is not None:
        for transition in transitions:
            if transition.is_start and transition.slot >= since:
                slots.add(transition.slot)
    past_run = replace(run, states=_states_after(run, transitions))
    # Pages show the newest run of their site. In this copy of the site, the reported run is the
    # newest one, so pages show what they showed after that run.
    past_site = replace(site, latest=(past_run,), prefix="")
    newest_slots = sorted(slots)[-MOST_REPORT_RUNS:]
    sections = _sections(past_site, past_run, since, newest_slots)
    return in_one_file(f"{name} at {show_instant(run.slot)}", sections)


def _newest_run(site: Site, name: str, until: datetime | None) -> LatestRun:
    """Return the newest finished run up to ``until``, or raise AbsentPageError."""
    newest = site.store.history.latest([name], until=until)
    if not newest:
        when = "" if until is None else f" up to {show_instant(until)}"
        raise AbsentPageError(
            f"no finished run of a comparison named {name!r} is stored{when}: see rankwatch runs"
        )
    return newest[0]


def _finished_run_at(site: Site, name: str, slot: datetime) -> LatestRun:
    """Return the finished run of this slot, or raise AbsentPageError."""
    site.run_at(name, slot)  # raises if there is no run, finished or not
    newest = site.store.history.latest([name], until=slot)
    # If the run of this slot has not ended, the newest finished run is an earlier one.
    if not newest or newest[0].slot != slot:
        raise AbsentPageError(
            f"the run of {name} at {show_instant(slot)} has not ended: wait until "
            "rankwatch runs shows its end"
        )
    return newest[0]


def _states_after(run: LatestRun, transitions: Iterable[Transition]) -> tuple[AlertState, ...]:
    """Return the alerts' states after the run. ``run.states`` are the present states.

    ``transitions`` are all transitions up to the run, the oldest first.
    """
    last_transitions = {
        (transition.alert, transition.segment): transition for transition in transitions
    }
    states = []
    for state in run.states:
        if state.judged_slot == run.slot:
            # No later run has judged this alert, so this is its state after the run.
            states.append(state)
        else:
            last_transition = last_transitions.get((state.alert, state.segment))
            states.append(_state_after(last_transition, state))
    return tuple(states)


def _state_after(last: Transition | None, state: AlertState) -> AlertState:
    """Return the state after this transition. Without any transition, the state is quiet."""
    if last is None:
        return replace(state, state=State.QUIET)
    return replace(
        state,
        state=last.to_state,
        since=last.since,
        reason=last.reason,
        value=last.value,
        threshold=last.threshold,
        judged_slot=last.slot,
        incident=last.incident,
    )


def _sections(
    site: Site,
    latest: LatestRun,
    since: datetime | None,
    slots: Sequence[datetime],
) -> Iterator[Section]:
    """Yield the page of the comparison, and then the run of each slot with its worst users.

    ``slots`` are in ascending order, but the newest run is yielded first.
    """
    name = latest.comparison
    chosen = {"to": latest.slot}
    if since is not None:
        chosen["from"] = since
    page = read_comparison_page(site, PageRequest(path={"name": name}, chosen=chosen))
    yield Section(
        address=comparison_url(name),
        title="over time",
        template="comparison.html",
        # The section of the run has these tables.
        page=replace(page, arm_scores=(), unpaired=None),
    )
    for slot in reversed(slots):
        query = PageRequest(path={"name": name, "slot": format_instant(slot)}, chosen={})
        run_page = read_run_page(site, query)
        yield Section(
            address=run_url(name, slot),
            title=f"run of {show_instant(slot)}",
            template="run.html",
            page=run_page,
        )
        for worst in run_page.worst[:MOST_REPORT_USERS]:
            query = PageRequest(path={"name": name, "user": worst.user}, chosen={"slot": slot})
            user_page = read_user_page(site, query)
            yield Section(
                address=user_url(name, worst.user, slot),
                title=f"user {worst.user}",
                template="user.html",
                page=replace(user_page, history=user_page.history[-_USER_RUNS:]),
            )


def in_one_file(title: str, sections: Iterable[Section]) -> str:
    """Return one page with these sections, links between sections, style sheet and script."""
    style = read_static("rankwatch.css")
    script = read_static("rankwatch.js")
    parts = []
    anchors = {}  # the anchor of each section by its address
    contents = []  # the table of contents: anchor and title of each section
    left_out = 0
    size = len(style) + len(script)
    for number, section in enumerate(sections):
        anchor = f"part-{number}"
        html = render(
            section.template,
            page=section.page,
            prefix="",
            layout="section.html",
            has_server=False,
            anchor=anchor,
        )
        section_size = len(html.encode())
        # Only sections of users are left out, because there are few other sections.
        is_too_large = size + section_size > MOST_REPORT_BYTES
        if section.template == "user.html" and is_too_large:
            left_out += 1
            continue
        size += section_size
        parts.append(html)
        anchors[section.address] = anchor
        contents.append((anchor, section.title))
    body = Markup("".join(_link_sections(part, anchors) for part in parts))  # noqa: S704 - escaped
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


def _link_sections(html: str, anchors: Mapping[str, str]) -> str:
    """Return a section's HTML with links to other sections.

    ``anchors`` has the anchor of each section by its address on a server. A link to any other page
    of the server is removed.
    """

    def replace_link(link: re.Match[str]) -> str:
        anchor = anchors.get(Markup(link[1]).unescape())  # noqa: S704 - to be looked up
        return "" if anchor is None else f' href="#{anchor}"'

    return _LINK.sub(replace_link, html)


def _digest(content: str) -> str:
    """Return the hash by which a page's policy allows this style or script."""
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"
