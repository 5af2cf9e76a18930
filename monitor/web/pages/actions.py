"""What the forms of the alert pages do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote

from monitor.alerts import Matcher
from monitor.errors import ConfigError
from monitor.model import Transition
from monitor.options import parse_duration
from monitor.pipeline.alert_actions import Signature, acknowledge, make_silence, resolve
from monitor.web.pages.site import AbsentPageError, Site

LONGEST_COMMENT = 500
OUTCOMES = {
    "acknowledged": "Acknowledged: it is not sent again until it ends.",
    "resolved": "Resolved. If the next run is in breach it fires again, as a new alert.",
    "silenced": "Silenced. What still fires when the silence ends is sent then.",
    "expired": "The silence has ended. What still fires is sent.",
    "unchanged": "Nothing was changed: it has ended, or was done before.",
}
"""What came of a form, by the word that stands in the address of the page that follows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who looks at a page: the name under which they act and the token of their forms, and what came of the last one.

    Without a ``user`` nobody has to authenticate, and so nobody may act.
    """

    user: str | None
    token: str = ""
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form as its user sent it; ``key``: of the incident on whose page it stood, empty on the page of all."""

    user: str
    issued: datetime
    key: str
    fields: Mapping[str, str]

    def is_meant(self, start: Transition) -> bool:
        """Whether the firing is of the incident."""
        return bool(self.key) and self.key in (start.incident, start.dedup_key)


def act(site: Site, form: Form) -> str:
    """Do what the form asks for; its outcome, one of `OUTCOMES`. ConfigError where it asks for what is none."""
    name = form.fields.get("do", "")
    if name not in _ACTIONS:
        msg = f"there is no action {name[:40]!r}: choose {', '.join(_ACTIONS)}"
        raise ConfigError(msg)
    comment = " ".join(form.fields.get("comment", "").split())
    if len(comment) > LONGEST_COMMENT:
        msg = f"the comment has {len(comment):,} characters: write at most {LONGEST_COMMENT}"
        raise ConfigError(msg)
    return _ACTIONS[name](site, form, Signature(author=form.user, comment=comment, at=site.clock.now()))


def _acknowledge(site: Site, form: Form, signed: Signature) -> str:
    return "acknowledged" if acknowledge(site.store.alerts, form.is_meant, signed) else "unchanged"


def _resolve(site: Site, form: Form, signed: Signature) -> str:
    return "resolved" if resolve(site.store.alerts, form.is_meant, signed) else "unchanged"


def _silence(site: Site, form: Form, signed: Signature) -> str:
    try:
        ends_at = signed.at + parse_duration(form.fields.get("for", ""))
    except (ValueError, OverflowError) as error:
        msg = f"for how long: {error}"
        raise ConfigError(msg) from None
    silence = make_silence(_matchers(site, form), signed, ends_at=ends_at)
    # Forms are done one after the other, and none of another process is: one that comes again finds what it made.
    since = site.store.alerts.silences(ending_after=form.issued)
    is_made = any(
        each.created_at >= form.issued
        and (each.matchers, each.author, each.comment) == (silence.matchers, silence.author, silence.comment)
        for each in since
    )
    if not is_made:
        site.store.alerts.add_silence(silence)
    return "unchanged" if is_made else "silenced"


def _matchers(site: Site, form: Form) -> list[str]:
    """Those that were written, a line each; on the page of an incident those of its comparison, or of one alert of it."""
    if not form.key:
        return [line for line in form.fields.get("matchers", "").splitlines() if line.strip()]
    history = site.store.pages.incident(form.key)
    if not history.transitions:
        msg = f"no incident {form.key}: it never was, or is deleted"
        raise AbsentPageError(msg)
    # Quoted in the form, since what a page shows has characters spelled out that turn the writing round.
    alert = unquote(form.fields.get("alert", ""))
    named = {"comparison": history.transitions[0].comparison} | ({"alert": alert} if alert else {})
    return [Matcher.exactly(name, value).text for name, value in named.items()]


def _expire(site: Site, form: Form, signed: Signature) -> str:
    number = form.fields.get("silence", "")
    if not (number.isascii() and number.isdigit() and int(number[:20]) < 2**63):
        msg = f"{number[:40]!r} is no number of a silence"
        raise ConfigError(msg)
    return "expired" if site.store.alerts.expire_silence(int(number), now=signed.at) else "unchanged"


_ACTIONS: Mapping[str, Callable[[Site, Form, Signature], str]] = {
    "acknowledge": _acknowledge,
    "resolve": _resolve,
    "silence": _silence,
    "expire": _expire,
}
