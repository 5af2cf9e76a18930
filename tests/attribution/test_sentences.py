import math
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.attribution import MeanDrop, SegmentDrop, shorten_name, write_sentence
from monitor.attribution.sentences import LONGEST_SENTENCE
from monitor.model import Part


def segment(name: str, share: float, *amounts: float) -> SegmentDrop:
    """What it adds by membership, order, length, composition and missing."""
    parts = dict(zip(Part, (*amounts, *[0.0] * (5 - len(amounts))), strict=True))
    return SegmentDrop(segment=name, share=share, share_before=share, parts=parts)


def drop_of(*segments: SegmentDrop, noise: float = 0.001) -> MeanDrop:
    whole = math.fsum(each.whole for each in segments)
    return MeanDrop(dimension="c", before=0.5, now=0.5 + whole, segments=segments, noise=noise)


GERMANY, KINGDOM = segment("c=DE", 0.1, 0.071, 0.004), segment("c=UK", 0.9, 0.01, 0.005, 0, 0.006, 0.004)


def test_the_sentence_is_that_of_the_purpose() -> None:
    assert write_sentence(drop_of(GERMANY, KINGDOM), GERMANY, left=14) == (
        "71 % of the drop: c=DE, 14 items left their lists; membership elsewhere 10 %; order 9 %; composition 6 %; missing 4 %."
    )


@pytest.mark.parametrize(
    ("amounts", "left", "says"),
    [
        ((0.1,), 1, "All of the drop: everywhere, 1 item left their lists."),
        ((0.1,), 0, "All of the drop: everywhere, items replaced."),
        ((0.0, 0.1), 5, "All of the drop: everywhere, items moved."),
        ((0.0, 0.0, 0.1), 0, "All of the drop: everywhere, lists of other lengths."),
        ((0.0, 0.0, 0.0, 0.1), 0, "All of the drop: everywhere, other users asked than before."),
        ((0.0, 0.0, 0.0, 0.0, 0.1), 0, "All of the drop: everywhere, other users answered than before."),
        ((0.12, -0.02), 1200, "All of the drop: everywhere, 1,200 items left their lists; offset by order 20 %."),
        (
            (-0.1, -0.04, 0.25),
            0,
            "All of the drop: everywhere, lists of other lengths; offset by membership 91 %, order 36 %.",
        ),
        (
            (-0.1, -0.04, 0.15),
            0,
            "0.1500 against a drop of 0.0100: everywhere, lists of other lengths; offset by membership 0.1000, order 0.0400.",
        ),
    ],
)
def test_a_drop_is_put_in_plain_words(amounts: tuple[float, ...], left: int, says: str) -> None:
    assert write_sentence(drop_of(segment("all", 1, *amounts)), left=left) == says


@pytest.mark.parametrize(
    ("amount", "says"),
    [
        (-0.0205, "No drop: the mean rose by 0.0205."),
        (0.0, "No drop: the mean rose by 0.0000."),
        (0.0019, "No clear drop: the mean fell by 0.0019."),
    ],
)
def test_without_a_clear_drop_nothing_is_said_of_its_parts(amount: float, says: str) -> None:
    assert write_sentence(drop_of(segment("all", 1, amount)), left=14) == says


def test_a_segment_that_fell_is_named_even_without_a_clear_drop() -> None:
    other = segment("c=UK", 0.9, -0.08)
    assert write_sentence(drop_of(GERMANY, other), GERMANY, left=14) == (
        "No drop: the mean rose by 0.0050, but fell by 0.7500 in c=DE, 14 items left their lists."
    )
    assert write_sentence(drop_of(GERMANY, other, noise=1), GERMANY).startswith("No drop: the mean rose by")
    assert write_sentence(drop_of(GERMANY, noise=1), GERMANY) == (
        "No clear drop: the mean fell by 0.0750, by 0.7500 in c=DE, items replaced."
    )


HOSTILE = "c=\x1b]0;owned\x07\n\r\u202eDE\u2066 \ud800" + "x" * 5000


def test_hostile_names_stay_on_one_short_line() -> None:
    nasty = SegmentDrop(segment=HOSTILE, share=0.1, share_before=0.1, parts=GERMANY.parts)
    found = write_sentence(drop_of(nasty, KINGDOM), nasty)
    assert found.isprintable()
    assert len(found) <= LONGEST_SENTENCE
    assert shorten_name(HOSTILE) == "c= ]0;owned DE " + "x" * 24 + "…"
    assert shorten_name(f"{HOSTILE} and a=new") == shorten_name(HOSTILE) + " and a=new"


amounts = st.floats(-1, 1).map(lambda value: round(value, 6))


@given(
    st.lists(st.tuples(st.text(), st.lists(amounts, min_size=5, max_size=5)), min_size=1, max_size=3),
    st.integers(0, 10**9),
    st.booleans(),
    st.sampled_from([0.0, 0.01, 5.0]),
)
def test_whatever_happened_is_one_printable_line_of_bounded_length(
    drawn: list[tuple[str, list[float]]], left: int, has_leader: Any, noise: float
) -> None:
    segments = [segment(name, 0.4, *values) for name, values in drawn]
    leader = segments[0] if has_leader and segments[0].whole > 0 else None
    found = write_sentence(drop_of(*segments, noise=noise), leader, left=left)
    assert len(found) <= LONGEST_SENTENCE
    assert found.endswith(".")
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in found)
    assert found == write_sentence(drop_of(*segments, noise=noise), leader, left=left)
