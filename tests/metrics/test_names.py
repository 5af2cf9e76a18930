"""Names of metrics: what parses, what prints, what is refused and how."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import MetricError
from monitor.metrics import parse
from monitor.metrics.kendall import ExtendedTau
from monitor.metrics.rbo import Rbo


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("extended_tau", "extended_tau"),
        ("extended_tau@10", "extended_tau@10"),
        ("overlap()", "overlap"),
        ("rbo", "rbo(p=0.9)"),
        ("rbo()", "rbo(p=0.9)"),
        ("rbo(p=0.90)", "rbo(p=0.9)"),
        (" rbo ( p = .5 ) @ 3 ", "rbo(p=0.5)@3"),
        ("rbo(p=9e-1)@05", "rbo(p=0.9)@5"),
        ("rbo@5", "rbo(p=0.9)@5"),
        ("ndcg", "ndcg(arm=difference, gain=linear)"),
        ("ndcg( gain = exponential )@10", "ndcg(arm=difference, gain=exponential)@10"),
        ("ndcg_vs_baseline", "ndcg_vs_baseline(gain=linear)"),
        ("topk_kendall(penalty=0.5)@10", "topk_kendall(penalty=0.5)@10"),
        ("generalized_footrule", "generalized_footrule(discount=dcg)"),
    ],
)
def test_a_name_has_one_canonical_form(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@given(p=st.floats(0, 1, exclude_min=True, exclude_max=True), depth=st.none() | st.integers(1, 10**9 - 1))
def test_what_prints_parses_to_the_same_metric(p: float, depth: int | None) -> None:
    for metric in (Rbo(p=p, depth=depth), ExtendedTau(depth=depth)):
        assert parse(str(metric)) == metric


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rboo", "unknown metric 'rboo'; did you mean 'rbo'?"),
        ("Extended_Tau", "unknown metric 'Extended_Tau'; did you mean 'extended_tau'?"),
        ("zzz", "unknown metric 'zzz'; `rankwatch metrics` lists all"),
        ("rbo(P=0.9)", "metric rbo has no parameter 'P'; did you mean 'p'?"),
        ("rbo(q=0.9)", "metric rbo has no parameter 'q'; known: p"),
        ("overlap(p=1)", "metric overlap has no parameter 'p'; it takes none"),
        (
            "ndcg(arm=both)",
            "parameter 'arm' of metric 'ndcg(arm=both)' must be one of difference, baseline, candidate, not 'both'",
        ),
        *(
            (
                f"{name}(discount=steep)",
                f"parameter 'discount' of metric '{name}(discount=steep)' must be one of dcg, hyperbolic, not 'steep'",
            )
            for name in ("position_weighted_kendall_distance", "generalized_kendall_distance", "generalized_footrule")
        ),
        ("rbo(0.9)", "cannot read '0.9' in metric 'rbo(0.9)': write parameters as name=value, such as rbo(p=0.9)"),
        ("overlap(3)", "cannot read '3' in metric 'overlap(3)': write parameters as name=value; overlap takes none"),
        ("rbo(p=x)", "parameter 'p' of metric 'rbo(p=x)' must be a number, not 'x'"),
        ("rbo(p=nan)", "parameter 'p' of metric 'rbo(p=nan)' must be a number, not 'nan'"),
        ("rbo(p=0.5, p=0.6)", "parameter 'p' stands twice in metric 'rbo(p=0.5, p=0.6)'"),
        ("rbo(p=1)", "rbo(p=1.0): p must lie between 0 and 1, both excluded, such as rbo(p=0.9)"),
        ("rbo(p=0)", "rbo(p=0.0): p must lie between 0 and 1, both excluded, such as rbo(p=0.9)"),
        ("rbo(p=-1e9)", "rbo(p=-1000000000.0): p must lie between 0 and 1, both excluded, such as rbo(p=0.9)"),
        ("overlap@0", "overlap@0: the depth must be at least 1"),
    ],
)
def test_a_wrong_name_is_refused_with_what_to_write_instead(text: str, message: str) -> None:
    with pytest.raises(MetricError) as refused:
        parse(text)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    "text", ["", " ", "rbo(", "rbo)", "rbo(p=0.9)@", "rbo@-1", "rbo@1.5", "rbo(p=(1))", "rbo p", "rbo(p=0.9)x"]
)
def test_what_has_no_name_s_shape_is_refused(text: str) -> None:
    with pytest.raises(MetricError, match="cannot read metric"):
        parse(text)


@pytest.mark.parametrize("text", ["r" * 100_000, "rbo(" + "p=1," * 20_000 + ")"])
def test_a_name_of_any_length_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(MetricError, match=r"^cannot read metric 'r.{39}'\.\.\.: it has [0-9,]+ characters") as refused:
        parse(text)

    assert len(str(refused.value)) < 130
