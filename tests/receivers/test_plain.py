from typing import Any

from monitor.model import MessageStatus, Severity
from monitor.receivers.account import Account, ChangeAccount, SideBySide
from monitor.receivers.email.page import page_of
from monitor.receivers.plain import text_of


def account(**fields: Any) -> Account:
    base: dict[str, Any] = {
        "status": MessageStatus.FIRING,
        "severity": Severity.CRITICAL,
        "title": "SimilarityLow firing on feed",
        "changes": (ChangeAccount(heading="SimilarityLow firing", reason="0.2, below 0.3", facts=(("users", "1,874"),)),),
        "others": 0,
        "why": (),
        "shares": (),
        "entered": (),
        "left": (),
        "examples": (),
        "links": (),
        "commands": (),
    }
    return Account(**{**base, **fields})


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
    assert text_of(WHOLE).split("\n\n") == [
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
    assert text_of(account()) == "SimilarityLow firing on feed\n\nSimilarityLow firing\n  0.2, below 0.3\n  users: 1,874\n"
    assert text_of(account(), has_title=False).startswith("SimilarityLow firing\n  0.2")
    assert "<h4>" not in page_of(account())


def test_a_long_item_is_cut_so_that_columns_stay() -> None:
    shown = text_of(account(examples=(SideBySide(user="u", rows=(("1", "x" * 100, "y"),)),)))
    assert f"  1  {'x' * 39}…  y" in shown


def test_a_page_escapes_every_text_and_links_only_to_the_web() -> None:
    hostile = "<img src=x onerror=alert(1)>\"'&"
    page = page_of(
        account(
            title=hostile,
            changes=(ChangeAccount(heading=hostile, reason=hostile, facts=((hostile, hostile),)),),
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
    assert 'href="https://x.test/&quot;&gt;&lt;script&gt;"' in page
