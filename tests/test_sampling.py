from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pandas as pd
import pytest
from numpy.random import default_rng

from factories import DAY, comparison
from monitor.measures.sampling import draw_users, frequent_codes, select_kept, split_into_segments
from monitor.model.rankings import UserTable
from monitor.model.rules import Keep
from monitor.sources import SampleOptions

SLOT = datetime(2024, 1, 1, tzinfo=UTC)


def users(n, **dimensions):
    return UserTable(
        users=pd.Index([f"u{i:05}" for i in range(n)], dtype="str"),
        segments={name: pd.Categorical(list(values)) for name, values in dimensions.items()},
    )


def test_without_a_sample_all_users_are_requested_in_sorted_order():
    table = UserTable(
        users=pd.Index(["b", "c", "a"], dtype="str"),
        segments={"x": pd.Categorical(["1", "2", "1"])},
    )
    panel = draw_users(table, comparison(sample=None), SLOT)
    assert list(panel.users) == ["a", "b", "c"]
    assert not select_kept(panel.users, Keep.PANEL, comparison(sample=None)).any()
    found = {name: "".join(panel.users[rows]) for name, rows in panel.segments.items()}
    assert found == {"all": "abc", "x=1": "ab", "x=2": "c"}


def drawn(table, day=0, **changes):
    """Who is asked that many days after the slot."""
    return set(draw_users(table, comparison(**changes), SLOT + day * DAY).users)


def test_the_same_slot_draws_the_same_users_whatever_their_order():
    table = users(500)
    shuffled = UserTable(users=table.users[default_rng(1).permutation(500)], segments={})
    chosen = comparison(sample=SampleOptions(fixed=20, rotating=20))
    assert list(draw_users(table, chosen, SLOT).users) == list(
        draw_users(shuffled, chosen, SLOT).users
    )


def test_the_users_with_kept_scores_are_the_same_in_each_run():
    table = users(1000)
    both = comparison(sample=SampleOptions(fixed=50, rotating=50))
    today, tomorrow = (draw_users(table, both, SLOT + day * DAY).users for day in (0, 1))
    for keep, count in ((Keep.PANEL, 50), (50, 50), (20, 20)):
        kept = [set(asked[select_kept(asked, keep, both)]) for asked in (today, tomorrow)]
        assert len(kept[0]) == count
        assert kept[0] == kept[1] <= drawn(table, sample=SampleOptions(fixed=50))
    assert select_kept(today, Keep.ALL, both).all()
    assert not select_kept(today, Keep.NONE, both).any()


@pytest.mark.parametrize("other", [{"seed": 1}, {"name": "other"}])
def test_another_seed_or_comparison_draws_other_users(other):
    table = users(1000)
    size = SampleOptions(fixed=100)
    assert len(drawn(table, sample=size) & drawn(table, sample=size, **other)) < 40


def test_every_user_is_drawn_equally_often():
    for size in [SampleOptions(rotating=10), SampleOptions(fixed=5, minimum=10)]:
        table = users(50, x=["a"] * 50)
        counts = Counter[str]()
        for number in range(200):
            seed = number if size.minimum else 0
            counts.update(drawn(table, number, sample=size, seed=seed))
        chi_square = sum((counts[user] - 40) ** 2 / 32 for user in table.users)
        assert chi_square < 85.35  # 0.999 quantile of chi-square with 49 degrees of freedom


SIZES = {"UK": 700, "DE": 230, "AT": 60, "LI": 7}
COUNTRIES = [name for name, size in SIZES.items() for _ in range(size)]
PLANS = ["free" if place % 20 else "paid" for place in range(len(COUNTRIES))]


def test_a_minimum_is_met_exactly_by_every_segment_and_does_not_change_the_sample():
    table = users(len(COUNTRIES), country=COUNTRIES, plan=PLANS)
    sizes = None, SampleOptions(fixed=200), SampleOptions(fixed=200, minimum=40)
    everybody, plain, topped = (draw_users(table, comparison(sample=size), SLOT) for size in sizes)
    drawn = {name: len(rows) for name, rows in plain.segments.items()}
    least = {
        name: max(min(len(rows), 40), drawn.get(name, 0))
        for name, rows in everybody.segments.items()
    }
    assert {name: len(rows) for name, rows in topped.segments.items()} == least | {"all": 200}
    assert list(topped.users[topped.segments["all"]]) == list(plain.users)


def test_if_a_tenth_of_the_users_is_replaced_the_rest_of_the_sample_stays():
    table = users(len(COUNTRIES), country=COUNTRIES)
    chosen = comparison(sample=SampleOptions(fixed=300, minimum=40))
    stays = default_rng(2).random(len(COUNTRIES)) >= 0.1
    names = table.users.where(stays, f"new{table.users}")
    before = set(draw_users(table, chosen, SLOT).users) & set(names)
    after = draw_users(UserTable(users=names, segments=table.segments), chosen, SLOT + DAY)
    assert len(before & set(after.users)) >= 0.95 * len(before)
    assert len(after.segments["country=AT"]) == 40


def segments_of(column, most):
    found = split_into_segments(len(column), {"x": column}, {"x": frequent_codes(column, most)})
    return {name: list(rows) for name, rows in found.items()}


def test_a_dimension_with_too_many_values_keeps_the_most_frequent_and_combines_the_rest():
    column = pd.Categorical(["a"] * 3 + ["b"] * 2 + ["c", "d", None])
    segments = segments_of(column, 2)
    assert {name: len(rows) for name, rows in segments.items()} == {
        "all": 8,
        "x=a": 3,
        "x=b": 2,
        "x=other": 2,
        "x=unknown": 1,
    }


def test_a_real_value_named_other_keeps_all_its_users():
    assert segments_of(pd.Categorical(["other", "other", "a", "b"]), 1) == {
        "all": [0, 1, 2, 3],
        "x=other": [0, 1, 2, 3],
    }


def test_very_long_similar_values_are_cut_and_stay_different():
    long = "x" * 5000
    segments = segments_of(pd.Categorical([f"{long}a", f"{long}b"]), 10)
    assert [len(rows) for rows in segments.values()] == [2, 1, 1]
    assert all(len(name) <= 122 for name in segments)


def test_which_values_have_a_segment_does_not_change_with_the_draw():
    column = [f"v{i % 30:02}" for i in range(600)]
    table = users(600, x=column)
    few = comparison(sample=SampleOptions(rotating=60), max_segment_values=5)
    seen = {name for day in range(20) for name in draw_users(table, few, SLOT + day * DAY).segments}
    assert seen == {"all", "x=other", *(f"x=v{i:02}" for i in range(5))}
