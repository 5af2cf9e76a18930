import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import SLOT
from monitor.alerts import next_attempt


@pytest.mark.parametrize(
    ("attempts", "draw", "asked", "seconds"),
    [
        (0, 0.5, None, 1.0),
        (1, 0.5, None, 2.0),
        (5, 0.5, None, 32.0),
        (8, 0.5, None, 150.0),
        (10_000, 0.5, None, 150.0),
        (0, 0.0, None, 0.0),
        (0, 0.5, 30.0, 31.0),
        (0, 0.0, 86_400.0, 3600.0),
        (0, 0.0, -5.0, 0.0),
    ],
)
def test_the_next_attempt_is_so_many_seconds_away(attempts: int, draw: float, asked: float | None, seconds: float) -> None:
    again = next_attempt(attempts, now=SLOT, draw=draw, retry_after_s=asked)
    assert (again - SLOT).total_seconds() == pytest.approx(seconds)


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 1e12))
def test_it_is_never_in_the_past_nor_beyond_an_hour_and_five_minutes(attempts: int, draw: float, asked: float | None) -> None:
    wait = (next_attempt(attempts, now=SLOT, draw=draw, retry_after_s=asked) - SLOT).total_seconds()
    assert min(asked or 0, 3600) - 1e-6 <= wait <= 3900
