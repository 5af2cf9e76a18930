"""Where the users are that something happened to."""

import numpy as np

from monitor.attribution.decomposition import find_place, rows_of_place

N = 1000
COUNTRY, ACTIVITY = np.arange(N) % 5, np.arange(N) // 250
SEGMENTS = {
    "all": np.arange(N),
    **{f"country={value}": np.flatnonzero(value == COUNTRY) for value in range(5)},
    **{f"activity={value}": np.flatnonzero(value == ACTIVITY) for value in range(4)},
}


def place(hit: np.ndarray, usual: float = 0.0) -> str:
    return find_place(hit, usual, SEGMENTS)


def test_a_segment_that_holds_them_is_named_and_two_where_these_tell_them_better() -> None:
    assert place(COUNTRY == 2) == "country=2"
    assert place((COUNTRY == 2) & (ACTIVITY == 1)) == "activity=1 and country=2"
    assert place((COUNTRY == 2) & (np.arange(N) % 3 > 0)) == "country=2"


def test_users_from_everywhere_and_nobody_are_in_no_segment() -> None:
    assert place(np.arange(N) % 3 == 0) == "all"
    assert place(np.zeros(N, dtype=np.bool_)) == "all"
    assert place((COUNTRY == 2) | (ACTIVITY == 1)) == "all"


def test_who_would_be_hit_anyhow_does_not_hide_the_segment() -> None:
    anyhow = np.arange(N) % 7 == 0
    assert place((COUNTRY == 2) | anyhow, usual=1 / 7) == "country=2"
    assert place(anyhow, usual=1 / 7) == "all"


def test_a_place_is_read_back_even_where_a_name_holds_the_word_between_two() -> None:
    segments = {"all": np.arange(4), "genre=rock and pop": np.array([1, 2]), "country=DE": np.array([2, 3])}
    assert rows_of_place("country=DE and genre=rock and pop", segments).tolist() == [2]
    assert rows_of_place("genre=rock and pop", segments).tolist() == [1, 2]
    assert rows_of_place("genre=jazz", segments).tolist() == []
