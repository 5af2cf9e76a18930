"""Examples of messages, each below the claim that it shows. ``make generated`` writes golden.txt."""

import json
from dataclasses import replace

from factories import DAY, HOUR, SLOT
from messages import (
    BRITISH,
    EVERYBODY,
    URL,
    WHY,
    acknowledgement,
    briefing,
    briefing_on,
    end,
    explanation,
    hostile_message,
    many,
    message,
    opened,
    repetition,
    start,
)
from monitor.alerts.notification_policy import compose_messages
from monitor.model.alerts import Removed
from monitor.model.explanation import DropPart, FaultKind, PartAmount
from monitor.model.notifications import Briefing, FiringSnapshot, KnownCause
from monitor.model.rankings import Arm
from monitor.model.rules import Direction, Severity
from monitor.model.run_reasons import RunReason, RunReasonKind
from monitor.receivers.alertmanager import alert_of
from monitor.receivers.email import mail_page, mail_subject
from monitor.receivers.message.content import content_of
from monitor.receivers.message.identity import description_of, summary_of
from monitor.receivers.message.plain_text import plain_text
from monitor.receivers.pagerduty import pagerduty_events
from monitor.receivers.slack import headline_of, slack_body
from monitor.receivers.webhook import webhook_body
from texts.examples import show

TITLE = """THE MESSAGES THAT RANKWATCH SENDS

`make generated` makes this file from message_examples.py. A test compares it with the code.
"""
CANCELLING = (
    PartAmount(part=DropPart.ORDER, amount=1.25),
    PartAmount(part=DropPart.LENGTH, amount=-1.0),
)
NEAR, FAR = (
    start(segment=f"plan={value}", dedup_key=str(value), value=value, normal=None)
    for value in (0.3, 0.1)
)
MISSING = start(alert="MissingLists", dedup_key="m", value=None)
STALE = start(
    alert="Stale",
    metric="condition",
    statistic="stale",
    dedup_key="s",
    explanation=None,
    value=None,
)
EXPLAINED = start(
    metric="coverage",
    statistic="missing(candidate)",
    explanation="4 of 9 users (44 %), exactly the users in a=b",
)
LOST = start(
    metric="coverage",
    statistic="missing(baseline)",
    direction=Direction.ABOVE,
    normal=None,
    users=200,
)
SHARED = replace(LOST, statistic="shared_list(baseline)")
NAMED = replace(
    SHARED,
    alert="BaselineSharedList",
    dedup_key="n",
    value=0.3,
    runbook_url="https://runbooks.test/shared",
)
OTHER = replace(NAMED, alert="SharedList", statistic="shared_list", dedup_key="o")
ON_SHARED = briefing_on(FaultKind.SHARED_LIST, arms=(Arm.BASELINE,))
MIXED_UP, WARNING = briefing_on(FaultKind.MIXED_UP, users=6), start(severity=Severity.WARNING)
TOO_FEW_LISTS = RunReason(kind=RunReasonKind.LOST_LISTS, arm=Arm.CANDIDATE, users=140, asked=200)
FAILING = start(alert="RunFailing", severity=Severity.WARNING, slot=SLOT + HOUR, explanation=None)
NO_RUN = start(alert="Stale", dedup_key="s", reason="no run has succeeded", explanation=None)
BEFORE = FiringSnapshot(firing=(FAILING,), delivered=frozenset())
LATER = FiringSnapshot(
    firing=(FAILING, NO_RUN), delivered=frozenset({"firing"}), sent_starts=(FAILING,)
)
EXAMPLES = {
    "The subject of a mail stays when a severity joins, and names the new cause when it is worse": [
        *compose_messages((FAILING,), BEFORE),
        *compose_messages((NO_RUN,), LATER),
        *compose_messages((FAILING, NO_RUN), LATER),
    ],
    "A start has its figures, its cause and the lists of users": [
        message(EVERYBODY, BRITISH, briefing=briefing())
    ],
    "Shares that cancel out are given as amounts": [
        message(EVERYBODY, briefing=briefing(explanation=explanation(causes=CANCELLING)))
    ],
    "Without chosen users, the lists are those of the groups of users": [
        message(
            EVERYBODY, briefing=Briefing(explanation=hostile_message("v-1").briefing.explanation)
        )
    ],
    "An alert on all users comes before those on segments, and otherwise the segment farthest out": [
        message(NEAR, FAR, EVERYBODY),
        message(NEAR, FAR),
    ],
    "An incident that became worse says so first, and names what joined meanwhile": [
        message(
            MISSING, firing=(EVERYBODY, BRITISH, MISSING), wake_ups=2, worse="its severity rose"
        ),
    ],
    "Of a thousand changes five are shown in full, and the others by name": [
        message(*many(999), replace(MISSING, segment="shop=0001"))
    ],
    "At most twelve further alerts are named": [
        message(*(start(alert=f"A{n:02}", dedup_key=str(n)) for n in range(20)))
    ],
    "An end says what still fires, and comes after a start": [
        message(end()),
        message(end(), firing=(BRITISH,)),
        message(end(), BRITISH),
    ],
    "An end as new normal comes before other ends": [
        message(end(alert="A"), end(segment="country=UK", reason="0.45", is_new_normal=True))
    ],
    "What was removed is no longer watched, and its link leads to a page that exists": [
        message(end(reason="gone", removed=removed, slot=SLOT, at=SLOT)) for removed in Removed
    ],
    "An alert without an explanation says what an earlier run of its incident found": [
        message(STALE, firing=(EVERYBODY, STALE)),
        message(
            STALE,
            firing=(EVERYBODY, STALE),
            briefing=Briefing(known_cause=KnownCause(slot=SLOT, sentence=WHY)),
        ),
        message(BRITISH, firing=(EVERYBODY, BRITISH), first=(EVERYBODY,), briefing=briefing()),
        message(end(), firing=(EVERYBODY,)),
    ],
    "An alert on users without a list is explained by who they are, and not by items": [
        message(EXPLAINED, briefing=briefing_on(FaultKind.MISSING)),
        message(replace(EXPLAINED, explanation=None), briefing=briefing()),
    ],
    "An acknowledgement says who acknowledged, and has no old figures": [
        message(acknowledgement(), firing=(EVERYBODY,))
    ],
    "A repetition says since when, after which alert, and is urgent if its incident became worse": [
        repetition(
            EVERYBODY,
            start(segment="a=b", dedup_key="ab", since=SLOT - 3 * DAY),
            first=(start(alert="FailedLists"),),
            wake_ups=2,
        )
    ],
    "A title has the headline instead of the reason": [
        message(start(reason="it is", headline="recs is down"))
    ],
    "A name in a script from right to left does not reorder the text after it": [
        message(start(segment="shop=\u05d0\u05d1"))
    ],
    "A message about rankwatch itself links and names no comparison": [
        message(start(metric="database", comparison="rankwatch"))
    ],
    "A change that may be wanted can be accepted from its first run": [
        message(
            EVERYBODY,
            replace(BRITISH, since=SLOT - 2 * DAY),
            briefing=briefing_on(FaultKind.REPLACED),
        ),
        message(EVERYBODY, briefing=briefing_on(FaultKind.NOISE)),
        repetition(EVERYBODY, briefing=briefing_on(FaultKind.REPLACED)),
    ],
    "The urgency follows from the share of users, and says whom to call": [
        message(replace(LOST, value=0.6, normal=0.2)),
        message(replace(LOST, value=0.5)),
        message(replace(LOST, value=0.49)),
        message(replace(LOST, value=0.9, users=9, segment="country=UK")),
        message(start(metric="condition", statistic="error", value=None, users=0)),
    ],
    "The explanation counts the users, unless an alert names far more users or is urgent": [
        message(replace(SHARED, value=value), briefing=ON_SHARED)
        for value in (0.31, 0.49, 0.5, 0.61)
    ],
    "Lists of other users are urgent for any share": [
        message(WARNING, briefing=MIXED_UP),
        repetition(WARNING, briefing=replace(MIXED_UP, slot=SLOT + DAY)),
        message(WARNING, briefing=MIXED_UP, severity=Severity.INFO),
    ],
    "The alert that names the fault comes first, and its runbook is linked": [
        message(EVERYBODY, OTHER, NAMED, briefing=ON_SHARED),
        message(EVERYBODY, firing=(EVERYBODY, NAMED), worse="more", briefing=ON_SHARED),
    ],
    "Too few lists are as urgent as missing lists": [
        message(
            start(metric="condition", statistic="no_data", value=None, users=0),
            briefing=Briefing(reasons=(TOO_FEW_LISTS,)),
        )
    ],
    "Names are quoted in commands, and control characters are removed": [
        message(end(explanation="Everywhere, items moved.\n\x1b[31mx", comparison="a; rm -rf /"))
    ],
}

SLACK = {"url": "https://hooks.slack.com/services/x"}
PAGER = {"routing_key": "0" * 32}
HOOK = {"url": "https://hooks.test/x"}
ENTRIES = (
    {"slack": SLACK},
    {"slack": SLACK | {"repeat_every": None}},
    {"pagerduty": PAGER},
    {"pagerduty": PAGER | {"repeat_every": "4h"}},
    {"webhook": HOOK},
    {"webhook": HOOK | {"updates": True}},
)
BODIES = {
    "A start": message(EVERYBODY, briefing=briefing(), interval=HOUR),
    "An end while another alert still fires": message(end(), firing=(BRITISH,)),
    "The last end": message(end()),
    "An acknowledgement": message(acknowledgement(), firing=(EVERYBODY,)),
    "An update": message(BRITISH, firing=(EVERYBODY, BRITISH), is_update=True),
    "An incident that became worse": message(BRITISH, wake_ups=2, worse="its severity rose"),
}


def golden():
    """The whole file."""
    parts = [TITLE]
    for claim, messages in EXAMPLES.items():
        parts.append(f"\n\n{claim.upper()}\n")
        parts += map(_show, messages)
    parts.append("\n\nWHAT LASTS OR JOINS IS SENT AS THE KIND NEEDS IT OR AS ITS SETTINGS SAY\n")
    parts += [f"{entry}: {show(opened(**entry).treatment)}" for entry in ENTRIES]
    for claim, each in BODIES.items():
        for kind, body in bodies(each).items():
            if not isinstance(body, str):
                text = json.dumps(body, indent=1, ensure_ascii=False)
                parts.append(f"\n\n{claim.upper()}, AS SENT TO {kind.upper()}\n\n{text}")
    return "\n".join([*parts, ""])


def bodies(each):
    """What each kind of receiver sends."""
    content = content_of(each, URL)
    return {
        "alertmanager": alert_of(each.changes, SLOT, URL, interval=each.interval),
        "apprise": plain_text(content, has_title=False),
        "email": mail_page(content),
        "pagerduty": pagerduty_events(each, "key", URL),
        "slack": slack_body(content),
        "webhook": webhook_body(each, receiver="hook", external_url=URL),
    }


def _show(each):
    content = content_of(each, URL)
    lines = [
        f"subject of a mail: {mail_subject(each, content)}",
        f"headline in Slack: {headline_of(content)}",
    ]
    for change in each.changes[:1]:
        lines += [
            f"summary for Alertmanager: {summary_of(change)}",
            f"description for Alertmanager:\n{description_of(change, each.briefing or Briefing(), each.interval)}",
        ]
    if content.is_urgent:
        lines.append("urgent")
    return "\n".join([*lines, "text:", plain_text(content)])
