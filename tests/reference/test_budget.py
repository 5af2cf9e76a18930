import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.reference import SAFETY, Budget


def test_half_goes_to_all_and_the_rest_to_the_others_alike() -> None:
    budget = Budget(runs=100, segments=["all", "a", "b"], looks={"drop": 3, "trend": 1})
    assert budget.share("all", "drop") == pytest.approx(0.5 * 0.75 / (SAFETY * 100))
    assert budget.share("b", "trend") == pytest.approx(0.25 * 0.25 / (SAFETY * 100))


def test_a_lone_segment_takes_everything() -> None:
    for name in ("all", "country=DE"):
        assert Budget(runs=90, segments=[name], looks={"drop": 1}).share(name, "drop") == pytest.approx(1 / (SAFETY * 90))


def test_segments_without_all_share_everything() -> None:
    assert Budget(runs=50, segments=["a", "b"], looks={"drop": 1}).share("a", "drop") == pytest.approx(0.5 / (SAFETY * 50))


@given(
    st.floats(1, 1e6),
    st.sets(st.text(min_size=1, max_size=5), min_size=1, max_size=12),
    st.dictionaries(st.text(max_size=5), st.floats(0.01, 100), min_size=1, max_size=6),
)
def test_all_shares_sum_to_the_budget(runs: float, segments: set[str], looks: dict[str, float]) -> None:
    budget = Budget(runs=runs, segments=sorted(segments), looks=looks)
    spent = sum(budget.share(segment, look) for segment in segments for look in looks)
    assert spent == pytest.approx(1 / (SAFETY * runs))


def test_a_look_nobody_planned_has_no_share() -> None:
    with pytest.raises(KeyError):
        Budget(runs=90, segments=["all"], looks={"drop": 1}).share("all", "trend")
