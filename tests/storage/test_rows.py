"""Dataclasses as rows: a field is never lost silently."""

from dataclasses import make_dataclass

import pytest
from sqlalchemy import Column, Integer, MetaData, Table

from monitor.storage.rows import to_row

TABLE = Table("t", MetaData(), Column("a", Integer), Column("b", Integer))
Planted = make_dataclass("Planted", [("a", int), ("forgotten", int)])


def test_a_field_without_a_column_is_an_error_unless_it_is_left_out_by_name():
    with pytest.raises(TypeError, match=r"^t has no column for Planted\.forgotten$"):
        to_row(Planted(1, 2), TABLE)
    assert to_row(Planted(1, 2), TABLE, without=frozenset({"forgotten"}), b=3) == {"a": 1, "b": 3}
