"""What the forms of the alert pages do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.errors import ConfigError
from monitor.options import parse_duration
from monitor.pipeline.alert_actions import Signature, change_firing, make_silence
from monitor.ports import AlertStore
from monitor.web.pages.site import Site

_LONGEST_COMMENT = 500
OUTCOMES = {
    "acknowledge": "Acknowledged: it is not sent again until it ends.",
    "resolve": "Resolved. If the next run is in breach it fires again, as a new alert.",
    "silence": "Silenced. What still fires when the silence ends is sent then.",
    "expire": "The silence has ended. What still fires is sent.",
    "nothing": "Nothing was changed: it has ended, or was done before.",
}
"""What came of a form, by the word in the address of the page that follows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form as its user sent it; ``key``: of the incident on whose page it stood, empty on the page of all."""

    user: str
    issued: datetime
    key: str
    fields: Mapping[str, str]


def act(site: Site, form: Form) -> str:
    """Do what the form asks for; its outcome, one of `OUTCOMES`. ConfigError where that cannot be done."""
    what, alerts, now = form.fields.get("do", ""), site.store.alerts, site.clock.now()
    comment = " ".join(form.fields.get("comment", "").split())[:_LONGEST_COMMENT]
    signed, number = Signature(author=form.user, comment=comment, at=now), form.fields.get("silence", "")
    if what in ("acknowledge", "resolve"):
        of_it = lambda start: form.key in (start.incident, start.dedup_key)  # noqa: E731
        is_done = bool(change_firing(alerts, of_it, signed, ends=what == "resolve"))
    elif what == "silence":
        is_done = _silence(alerts, form, signed)
    elif what == "expire" and re.fullmatch("[0-9]{1,18}", number):
        is_done = alerts.expire_silence(int(number), now=now)
    else:
        msg = f"there is no action {what[:40]!r} for {number[:40]!r}"
        raise ConfigError(msg)
    return what if is_done else "nothing"


def _silence(alerts: AlertStore, form: Form, signed: Signature) -> bool:
    try:
        ends_at = signed.at + parse_duration(form.fields.get("for", ""))
    except (ValueError, OverflowError) as error:
        msg = f"for how long: {error}"
        raise ConfigError(msg) from None
    matchers = [line for line in form.fields.get("matchers", "").splitlines() if line.strip()]
    wanted = make_silence(matchers, signed, starts_at=signed.at, ends_at=ends_at)
    # A form that is sent again finds what it made: forms are done one after the other, and each by the process that made it.
    for each in alerts.silences(ending_after=form.issued):
        is_same = (each.matchers, each.author, each.comment) == (wanted.matchers, wanted.author, wanted.comment)
        if is_same and each.created_at >= form.issued:
            return False
    alerts.add_silence(wanted)
    return True
