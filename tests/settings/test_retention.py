"""How the ages of `retention` are read, and what is deleted by them."""

from datetime import timedelta

from factories import SLOT
from monitor.settings.configuration import RetentionOptions

DAY = timedelta(days=1)


def test_lists_go_with_the_scores_and_segments_with_the_run_unless_told_otherwise() -> None:
    found = RetentionOptions.model_validate({"scores": "7d", "runs": "100d"}).cutoffs(SLOT)
    assert (found.scores, found.lists, found.summaries) == (SLOT - 7 * DAY, SLOT - 7 * DAY, SLOT - 100 * DAY)
    assert found.daily == SLOT - 1825 * DAY

    told = RetentionOptions.model_validate({"lists": "1d", "summaries": "30d"}).cutoffs(SLOT)
    assert (told.lists, told.summaries) == (SLOT - DAY, SLOT - 30 * DAY)
