"""A message as an event of the Events API v2, within its limits whatever the message holds."""

from __future__ import annotations

from monitor.model import Message, MessageStatus, Severity
from monitor.receivers.account import Account, ChangeAccount, account_of
from monitor.receivers.account.writing import say
from monitor.receivers.wording import clean, moment

MAX_KEY = 255
MAX_SUMMARY = 1024

_MAX_NAME = 200
_ACTIONS = {
    MessageStatus.FIRING: "trigger",
    MessageStatus.ACKNOWLEDGED: "acknowledge",
    MessageStatus.RESOLVED: "resolve",
}
_SEVERITIES = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.INFO: "info"}


def event_of(message: Message, routing_key: str, external_url: str) -> dict[str, object]:
    """The body of a request. Everything that happens while something of the incident fires updates the one alert.

    Far below the 512 KB that PagerDuty takes, since an account is bounded.
    """
    account = account_of(message, external_url)
    return {
        "routing_key": routing_key,
        "event_action": _ACTIONS[message.status],
        "dedup_key": clean(message.incident, MAX_KEY),
        "payload": _payload(message, account),
        "client": "rankwatch",
        "client_url": account.links[0][1],
        "links": [{"href": url, "text": name} for name, url in account.links],
    }


def _payload(message: Message, account: Account) -> dict[str, object]:
    lead, comparison = (message.changes or message.firing)[0], clean(message.comparison, _MAX_NAME)
    return {
        "summary": say(f"{account.title}: {account.changes[0].reason}", MAX_SUMMARY),
        "source": comparison.strip() or "rankwatch",
        "severity": _SEVERITIES[message.severity],
        "timestamp": moment(lead.at),
        "component": clean(lead.segment, _MAX_NAME),
        "group": comparison,
        "class": clean(lead.alert, _MAX_NAME),
        "custom_details": _details(account),
    }


def _details(account: Account) -> dict[str, object]:
    told: dict[str, object] = {
        "changes": [_detail(change) for change in account.changes],
        "more": account.more,
        "why": account.why,
        "parts of the drop": dict(account.shares),
        "entered or rose": account.entered,
        "left or fell": account.left,
        "lists, baseline | candidate": [
            {"user": example.user, "lists": [f"{rank} {ours} | {theirs}" for rank, ours, theirs in example.rows]}
            for example in account.examples
        ],
        "commands": account.commands,
    }
    return {name: said for name, said in told.items() if said}


def _detail(change: ChangeAccount) -> dict[str, object]:
    return {"change": change.heading, "reason": change.reason, "figures": dict(change.facts)}
