"""How ages and sizes of `retention` are read, and what goes by them."""

from datetime import timedelta

import pytest

from factories import SLOT
from monitor.settings import RetentionOptions

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "size"),
    [("20GB", 20 * 10**9), ("1.5TiB", 3 << 39), ("500MB", 5 * 10**8), ("2 GiB", 2 << 30), ("1000kB", 10**6)],
)
def test_sizes_are_read_with_their_unit(text: str, size: int) -> None:
    assert RetentionOptions.model_validate({"max_size": text}).max_size == size


@pytest.mark.parametrize("text", ["20", 20, "20gb", "-1GB", "1e9B", "GB", "999kB", True, None])
def test_what_is_no_size_is_refused(text: object) -> None:
    if text is None:
        assert RetentionOptions.model_validate({"max_size": text}).max_size is None
        return
    with pytest.raises(ValueError, match=r"size|1MB"):
        RetentionOptions.model_validate({"max_size": text})


def test_lists_go_with_the_scores_and_segments_with_the_run_unless_told_otherwise() -> None:
    found = RetentionOptions.model_validate({"scores": "7d", "runs": "100d"}).cutoffs(SLOT)
    assert (found.scores, found.lists, found.summaries) == (SLOT - 7 * DAY, SLOT - 7 * DAY, SLOT - 100 * DAY)
    assert (found.daily, found.max_bytes) == (SLOT - 1825 * DAY, None)

    told = RetentionOptions.model_validate({"lists": "1d", "summaries": "30d", "max_size": "1GB"}).cutoffs(SLOT)
    assert (told.lists, told.summaries, told.max_bytes) == (SLOT - DAY, SLOT - 30 * DAY, 10**9)
