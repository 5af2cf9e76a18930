"""The order of users' ids."""

import pandas as pd
from hypothesis import example, given, strategies as st

from monitor.measures.reading.text_order import ascending_rows


def index(texts):
    return pd.Index(pd.array(texts, dtype="str"))


def test_texts_are_ordered_by_their_bytes():
    for texts in [
        ["user-10", "user-2", "user-1", "user-"],  # one is the beginning of all others
        ["b", "", "a"],
        ["12345678", "1", "12345679", "123"],  # eight bytes fit into an integer
        ["123456789", "1", "123456788"],  # nine do not
        ["a\x00", "a", "a\x00b"],
        ["\u00fc", "z", "\U0001f600", "\uffff"],
    ]:
        rows = ascending_rows(index(texts))

        assert rows is not None
        assert [texts[row] for row in rows] == sorted(texts, key=str.encode)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, unique=True))
@example(["x"])
def test_a_part_of_a_longer_index_is_ordered_as_python_orders_it(texts):
    rows = ascending_rows(index(["0", *texts, "1"])[1:-1])
    ordered = sorted(texts, key=str.encode)

    if rows is None:
        assert texts == ordered
    else:
        assert [texts[row] for row in rows] == ordered
