from typing import Any

from monitor.model.notifications import MessageStatus
from monitor.model.rules import Severity
from monitor.receivers.email import mail_page
from monitor.receivers.message import ChangeContent, MessageContent, SideBySide
from monitor.receivers.message.plain_text import plain_text


def account(**fields: Any) -> MessageContent:
    base: dict[str, Any] = {
        "status": MessageStatus.FIRING,
        "severity": Severity.CRITICAL,
        "title": "SimilarityLow firing on feed",
        "changes": (ChangeContent(heading="SimilarityLow firing", reason="0.2, below 0.3", facts=(("users", "1,874"),)),),
        "why": (),
        "shares": (),
        "entered": (),
        "left": (),
        "examples": (),
        "links": (),
        "commands": (),
    }
    return MessageContent(**{**base, **fields})


WHOLE = account(
    more=("and 3 more",),
    why=("Items moved.",),
    shares=(("order", "80 %"),),
    entered=("new hit",),
    left=("old hit",),
    examples=(SideBySide(user="u7", rows=(("1", "apple", "pear"), ("10", "fig", ""))),),
    links=(("dashboard", "https://x.test/a?b=1&c=2"),),
    commands=("rankwatch show feed",),
)


def test_text_has_its_parts_in_order_and_lists_side_by_side() -> None:
    assert plain_text(WHOLE).split("\n\n") == [
        "SimilarityLow firing on feed",
        "Why:\n  Items moved.",
        "SimilarityLow firing\n  0.2, below 0.3\n  users: 1,874",
        "and 3 more",
        "What the drop is made of:\n  order: 80 %",
        "Items that gained most:\n  new hit",
        "Items that lost most:\n  old hit",
        "Lists of u7:\n      baseline  candidate\n   1  apple     pear\n  10  fig",
        "Links:\n  dashboard: https://x.test/a?b=1&c=2",
        "Commands:\n  rankwatch show feed\n",
    ]


def test_what_is_empty_is_left_out() -> None:
    assert plain_text(account()) == "SimilarityLow firing on feed\n\nSimilarityLow firing\n  0.2, below 0.3\n  users: 1,874\n"
    assert plain_text(account(), has_title=False).startswith("SimilarityLow firing\n  0.2")
    assert "<h4>" not in mail_page(account())


def test_a_long_item_is_cut_so_that_columns_stay() -> None:
    shown = plain_text(account(examples=(SideBySide(user="u", rows=(("1", "x" * 100, "y"),)),)))
    assert f"  1  {'x' * 23}…{'x' * 10}  y" in shown


def test_a_page_escapes_every_text_and_links_only_to_the_web() -> None:
    hostile = "<img src=x onerror=alert(1)>\"'&"
    page = mail_page(
        account(
            title=hostile,
            changes=(ChangeContent(heading=hostile, reason=hostile, facts=((hostile, hostile),)),),
            more=(hostile,),
            why=(hostile,),
            shares=((hostile, hostile),),
            entered=(hostile,),
            left=(hostile,),
            examples=(SideBySide(user=hostile, rows=((hostile, hostile, hostile),)),),
            links=((hostile, "javascript:alert(1)"), (hostile, 'https://x.test/"><script>')),
            commands=(hostile,),
        )
    )
    for tag in ("<img", "<script", 'href="javascript'):
        assert tag not in page
    assert 'href="https://x.test/&#34;&gt;&lt;script&gt;"' in page
