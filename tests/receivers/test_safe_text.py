from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from factories import SLOT, transition
from monitor.model.alerts import State
from monitor.receivers.message.identity import description_of, summary_of
from monitor.receivers.message.safe_text import clean, page_url

ENDED = {"from_state": State.FIRING, "to_state": State.QUIET, "reason": "it is over", "since": SLOT - timedelta(days=2)}


def test_the_summary_names_alert_place_and_reason() -> None:
    assert summary_of(transition()) == (
        "SimilarityLow firing on home-feed: mean of extended_tau is 0.254 over 1,874 users, below 0.35"
    )
    assert (
        summary_of(transition(segment="country=UK", **ENDED)) == "SimilarityLow resolved on home-feed (country=UK): it is over"
    )


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
