import pytest

from factories import SLOT
from monitor.pipeline.delivery import next_attempt


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
