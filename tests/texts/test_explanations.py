"""Sentences of explanations, whatever the names and the amounts are. Examples of them are in examples.py."""

import unicodedata

from hypothesis import example, given, strategies as st

from monitor.model.explanation import DropPart
from monitor.texts.explanations import LONGEST_EXPLANATION, shorten_name, write_drop
from texts.examples import fall, mean_drop

HOSTILE = "c=\x1b]0;owned\x07\n\r\u202eDE\u2066 \ud800" + "x" * 5000
amounts = st.floats(-1, 1).map(lambda value: round(value, 6))


def test_hostile_names_stay_on_one_short_line():
    assert shorten_name(HOSTILE) == "c= ]0;owned DE " + "x" * 24 + "…"
    assert shorten_name(f"{HOSTILE} and a=new") == f"{shorten_name(HOSTILE)} and a=new"


@example(name=HOSTILE, values=[0.1, 0, 0, 0], has_leader=True, noise=0.0)
@given(
    st.text(max_size=60),
    st.lists(amounts, min_size=4, max_size=4),
    st.booleans(),
    st.sampled_from([0.0, 0.01, 5.0]),
)
def test_whatever_happened_is_one_printable_line_of_bounded_length(name, values, has_leader, noise):
    parts = dict(zip(map(str, DropPart), values, strict=True))
    drop = mean_drop(fall(0.4, name, **parts) if has_leader else None, noise=noise, **parts)
    found = write_drop(drop)
    assert len(found) <= LONGEST_EXPLANATION
    assert found.endswith(".")
    categories = set(map(unicodedata.category, found))
    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}
