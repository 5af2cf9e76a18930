"""Users who go by keyed hashes: the same is measured of them, and nothing that leaves a run has their ids."""

from dataclasses import replace
from typing import Any

import pytest

from factories import SLOT, changed
from monitor.errors import SourceError, UserDataError
from monitor.model.comparison import Keep, SampleSize
from monitor.model.memory import Memory
from monitor.model.statistics import NoiseFloor
from monitor.pipeline.pseudonyms import HiddenRelevance, Pseudonyms
from monitor.pipeline.pull import Arms
from monitor.pipeline.run_measurement import Measurement, Stopwatch, measure_slot
from pipeline.canned import CannedRelevance, StillClock
from pipeline.test_user_batches import ASKED, EVERYTHING, TEXTS, MeasuredThere, plain, world

HIDING = Pseudonyms(b"k" * 32)


def hidden(asked: Arms) -> Arms:
    assert asked.relevance is not None
    return replace(asked, relevance=HiddenRelevance(asked.relevance, HIDING), pseudonyms=HIDING)


def measured(asked: Arms, memory: Memory, *, batch_users: int | None = None, **changes: Any) -> Measurement:
    watch = Stopwatch(StillClock())
    return measure_slot(changed(EVERYTHING, **changes), asked, SLOT, memory, watch, batch_users=batch_users)


def test_a_pseudonym_is_the_first_half_of_the_hmac_as_rfc_4231_has_it() -> None:
    told = Pseudonyms(b"Jefe").find("what do ya want for nothing?")
    assert told == "hmac-5bdcc146bf60754e6a042426089575c7"
    assert Pseudonyms(b"Jefe").find(told) == told
    assert "Jefe" not in repr(Pseudonyms(b"Jefe"))


def test_every_id_has_a_pseudonym_of_one_shape_and_of_its_own() -> None:
    for user in ("", "<b>", "\u202e\u0007", "a/b%2f", "x" * 10_000, "hmac-5", "\ud800", "ü"):
        assert HIDING.find(user) == HIDING.hide([user, "other"])[0] != HIDING.hide(["other"])[0]
        assert HIDING.find(user) != Pseudonyms(b"l" * 32).find(user)


@pytest.mark.parametrize("floor", [NoiseFloor.SERVE, NoiseFloor.TEMPORAL])
def test_under_pseudonyms_the_same_is_measured_and_no_id_is_left(floor: NoiseFloor) -> None:
    asked, memory = world(TEXTS)
    lists = memory.last_lists
    assert lists is not None
    kept = {
        arm: replace(getattr(lists, arm), users=HIDING.hide(getattr(lists, arm).users)) for arm in ("baseline", "candidate")
    }
    known = measured(asked, memory, noise_floor=floor)
    found = measured(hidden(asked), replace(memory, last_lists=replace(lists, **kept)), noise_floor=floor)
    for name in ("coverage", "summaries", "arm_scores", "catalogue_size", "is_labelled"):
        assert plain(getattr(found.run, name)) == plain(getattr(known.run, name)), name
    assert {each.user for each in found.run.evidence if each.kind == "worst"} <= set(HIDING.hide(ASKED))
    assert found.notes.keys() == known.notes.keys()
    assert "user-" not in repr((plain(found.run), found.notes, found.left_out))
    assert "user-" in repr((plain(known.run), known.notes, known.left_out))


def test_lists_that_are_measured_elsewhere_are_hidden_there() -> None:
    asked, memory = world(TEXTS)
    there = replace(hidden(asked), joined=MeasuredThere(asked, EVERYTHING))
    found = measured(there, memory, batch_users=70)
    assert found.run.summaries == measured(hidden(asked), memory, batch_users=70).run.summaries
    assert "user-" not in repr((plain(found.run), found.notes))


def test_scores_of_the_panel_are_those_of_its_fixed_users_in_every_run() -> None:
    asked = hidden(world(TEXTS)[0])

    def users_kept(size: SampleSize) -> set[str]:
        scores = measured(asked, Memory(), sample=size, keep_scores=Keep.PANEL).run.scores
        return {user for batch in scores or () for user in batch.users}

    fixed, more = users_kept(SampleSize(fixed=60)), users_kept(SampleSize(fixed=60, rotating=150))
    assert set() != fixed <= more  # a rotating user takes the place of a fixed one without a list
    assert len(more) <= 60


def test_an_error_about_one_users_relevance_names_the_pseudonym() -> None:
    odd = CannedRelevance({SLOT: UserDataError("kim", "of labels.csv stands in two rows")})
    with pytest.raises(SourceError) as caught:
        HiddenRelevance(odd, HIDING).relevance(SLOT)
    assert str(caught.value) == f"user '{HIDING.find('kim')}' of labels.csv stands in two rows"
