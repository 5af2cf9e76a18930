from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from factories import SLOT, transition
from monitor.model.alerts import State
from monitor.model.notifications import MessageStatus
from monitor.model.rules import Severity
from monitor.receivers.email import mail_page
from monitor.receivers.message.content import ChangeContent, MessageContent, SideBySide
from monitor.receivers.message.identity import description_of, summary_of
from monitor.receivers.message.plain_text import plain_text
from monitor.receivers.message.safe_text import clean, page_url


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


def test_a_page_escapes_its_links_and_the_rest_by_name_and_links_only_to_the_web() -> None:
    page = mail_page(account(more=("<img>",), links=(("<img>", "javascript:x"), ("<img>", 'https://x.test/"><script>'))))
    assert not any(tag in page for tag in ("<img", "<script", 'href="javascript'))
    assert 'href="https://x.test/&#34;&gt;&lt;script&gt;"' in page


ENDED = {"from_state": State.FIRING, "to_state": State.QUIET, "reason": "it is over", "since": SLOT - timedelta(days=2)}


def test_the_summary_of_an_end_names_alert_place_and_reason() -> None:
    ended = transition(segment="country=UK", **ENDED)
    assert summary_of(ended) == "SimilarityLow resolved on home-feed (country=UK): it is over"


def test_the_description_has_the_reason_since_when_and_what_to_run() -> None:
    assert description_of(transition()).splitlines() == [
        "mean of extended_tau is 0.254 over 1,874 users, below 0.35",
        "in breach since 2024-01-07T00:00:00Z, reported for the run of 2024-01-08T00:00:00Z",
        "To see more: rankwatch show home-feed --slot 2024-01-08T00:00:00Z; rankwatch runs home-feed",
    ]
    ended = description_of(transition(value=None, **ENDED)).splitlines()
    assert ended[1] == "had been firing since 2024-01-06T00:00:00Z, reported for the run of 2024-01-08T00:00:00Z"


def test_the_description_says_why_on_a_line_of_its_own() -> None:
    _, why, *rest = description_of(transition(explanation="Everywhere, items moved.\n\x1b[31mx")).splitlines()
    assert (why, len(rest)) == ("Why: Everywhere, items moved.  [31mx", 2)


def test_a_command_with_a_hostile_name_is_quoted() -> None:
    last = description_of(transition(comparison="a; rm -rf /")).splitlines()[-1]
    assert "rankwatch show 'a; rm -rf /' --slot " in last
    assert last.endswith("rankwatch runs 'a; rm -rf /'")


def test_a_link_is_escaped() -> None:
    link = page_url(transition(comparison="home feed/1", segment="a=b&c"), "http://rw.test/")
    assert link == "http://rw.test/c/home%20feed%2F1/runs/2024-01-08T00:00:00Z?segment=a%3Db%26c"


def test_cleaned_text_has_no_controls_and_no_way_to_turn_the_writing_around() -> None:
    assert clean("a\r\nb\x00c\u202ed\ud800") == "a  b c d?"


def test_cut_texts_that_differ_only_beyond_the_cut_stay_different() -> None:
    one, two = clean("x" * 500 + "1", 256), clean("x" * 500 + "2", 256)
    assert one != two
    assert len(one) == 256


@given(st.text(st.characters(codec=None), max_size=400), st.integers(20, 300))  # surrogates too
def test_cleaned_text_is_short_printable_utf8(text: str, limit: int) -> None:
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit
    assert cleaned.isprintable()
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean(cleaned, limit) == cleaned
