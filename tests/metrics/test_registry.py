"""Every registered metric has the properties that it declares, and those of all metrics. Names are parsed."""

import re
from dataclasses import replace

import numpy as np
import pytest

from kernels import reference
from metrics import known_pairs
from monitor.measures.arm_metrics import ARM_METRICS
from monitor.measures.frames import compare_many
from monitor.measures.metrics import METRICS, parse, score_all
from monitor.model.errors import MetricError
from monitor.testing import MetricContract
from places import ROOT
from tables import cells

DEFAULT = [kind() for kind in METRICS.values()]
VARIANTS = [
    *map(parse, ["extended_tau@3", "rbo@3", "ndcg@3", "rbo(p=0.01)", "rbo(p=0.9999)"]),
    *map(parse, ["rbo_min(p=0.01)", "rbo_min(p=0.9999)", "topk_kendall(penalty=0.5)"]),
    parse("topk_kendall_normalized(penalty=0.5)"),
    *(
        kind(**{name: words[-1]})  # type: ignore[arg-type] # words of its own choices
        for kind in METRICS.values()
        for name, words in kind.choices.items()
    ),
]


EVERY = [*DEFAULT, *VARIANTS]


@pytest.fixture(scope="module", autouse=True)
def _measured_together():
    """The contract's lists are measured once, by all metrics."""
    found = {}

    def compare_once(baseline, candidate, _, **known):
        lists = repr([baseline["items"].tolist(), candidate["items"].tolist()])
        if lists not in found:
            found[lists] = compare_many(baseline, candidate, EVERY, **known)
        return found[lists]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monitor.testing.contracts.compare_many", compare_once)
        yield


class TestEveryVariant(MetricContract):
    @pytest.fixture(params=EVERY, ids=str)
    def metric(self, request):
        return request.param


def test_no_pairs_give_no_scores():
    found = score_all(known_pairs.batch([], k=3), EVERY)

    assert {scores.shape for scores in found.values()} == {(0,)}


def test_a_value_that_is_declared_to_vary_does_so_with_the_length():
    tops = [list(range(length)) for length in (2, 3, 10)]
    batch = known_pairs.batch(
        [(top, other) for top in tops for other in (top, [item + 40 for item in top], [])]
    )
    metrics = [metric for metric in DEFAULT if metric.need is None]
    for metric, scores in zip(metrics, score_all(batch, metrics).values(), strict=True):
        declared = (metric.identical, metric.disjoint, metric.one_empty)
        varies = [len(set(map(str, values))) > 1 for values in scores.reshape(3, 3).T]
        assert varies == [value is None for value in declared], metric


def test_an_asymmetric_metric_is_not_symmetric_by_accident():
    rng = np.random.default_rng(1)
    pairs = [(list(rng.permutation(8)[:6]), list(rng.permutation(8)[:6])) for _ in range(50)]
    there, back = (
        score_all(known_pairs.batch(each), DEFAULT) for each in (pairs, [(b, a) for a, b in pairs])
    )

    differs = {
        name
        for name, scores in there.items()
        if not np.array_equal(scores, back[name], equal_nan=True)
    }
    assert differs >= {str(metric) for metric in DEFAULT if not metric.is_symmetric}


def test_items_below_the_depth_have_no_effect():
    cut, rng = 3, np.random.default_rng(8)
    rankings = [
        [*rng.permutation(13)[:cut].tolist(), *(20 + rng.permutation(6)).tolist()]
        for _ in range(100)
    ]
    pairs = list(zip(rankings[::2], rankings[1::2], strict=True))
    whole, tops = (
        known_pairs.batch(pairs),
        known_pairs.batch([(a[:cut], b[:cut]) for a, b in pairs]),
    )
    assert whole.labels is not None
    assert tops.labels is not None
    # What is known of a user, such as the ideal, stays.
    labels = replace(tops.labels, ideal=whole.labels.ideal[:, :cut], relevant=whole.labels.relevant)

    found = score_all(whole, [kind(depth=cut) for kind in METRICS.values()])

    for name, expected in score_all(replace(tops, labels=labels), DEFAULT).items():
        np.testing.assert_allclose(
            found[f"{name}@{cut}"], expected, rtol=0, atol=1e-12, err_msg=name
        )


def test_a_metric_without_the_data_that_it_needs_says_so():
    for metric in DEFAULT:
        if metric.need is not None:
            with pytest.raises(MetricError, match=f"needs {metric.need}"):
                score_all(reference.batch([([1, 2], [2, 1])]), [metric])


GUIDE = (ROOT / "docs/reference/metrics.md").read_text()


def test_the_guide_has_a_row_by_hand_for_every_metric():
    by_hand = re.sub("(?s)<!-- generated -->.*<!-- end", "", GUIDE)
    rows = "".join(re.findall(r"(?m)^\|.*", by_hand))
    assert {name for name in METRICS if f"`{name}`" not in rows} == set()
    assert {name for name in ARM_METRICS if f"`{name}`" not in by_hand} == set()


def test_every_measure_that_the_guide_writes_with_parameters_can_be_read():
    named = re.findall(r"`((\w+)\([^`]*\))`", GUIDE)

    written = [text for text, name in named if name in METRICS]
    assert "rbo(p=0.68)" in written
    for text in written:
        parse(text)


NAMES = """
extended_tau                    extended_tau
extended_tau@10                 extended_tau@10
overlap()                       overlap
rbo                             rbo(p=0.9)
rbo()                           rbo(p=0.9)
rbo(p=0.90)                     rbo(p=0.9)
rbo ( p = .5 ) @ 3              rbo(p=0.5)@3
rbo(p=9e-1)@05                  rbo(p=0.9)@5
rbo@5                           rbo(p=0.9)@5
rbo(p=0.12345678901234566)      rbo(p=0.12345678901234566)
rbo(p=1e-300)@999999999         rbo(p=1e-300)@999999999
ndcg                            ndcg(arm=difference, gain=linear)
ndcg( gain = exponential )@10   ndcg(arm=difference, gain=exponential)@10
ndcg_vs_baseline                ndcg_vs_baseline(gain=linear)
topk_kendall(penalty=0.5)@10    topk_kendall(penalty=0.5)@10
generalized_footrule            generalized_footrule(discount=dcg)
"""


def test_a_name_has_one_canonical_form():
    for text, canonical in cells(NAMES):
        assert str(parse(text)) == canonical
        assert parse(canonical) == parse(f" {text} ")


WRONG = """
rboo                  unknown metric 'rboo'; did you mean 'rbo'?
Extended_Tau          unknown metric 'Extended_Tau'; did you mean 'extended_tau'?
zzz                   unknown metric 'zzz'; `rankwatch metrics` lists all names
rbo(P=0.9)            metric rbo has no parameter 'P'; did you mean 'p'?
rbo(q=0.9)            metric rbo has no parameter 'q'; write one of p
overlap(p=1)          metric overlap has no parameter 'p'; the metric has no parameters
ndcg(arm=both)        parameter 'arm' of metric 'ndcg(arm=both)' must be one of difference, baseline, candidate, not 'both'
ndcg(gain=steep)      parameter 'gain' of metric 'ndcg(gain=steep)' must be one of linear, exponential, not 'steep'
rbo(0.9)              cannot read '0.9' in metric 'rbo(0.9)': write parameters as name=value, such as rbo(p=0.9)
overlap(3)            cannot read '3' in metric 'overlap(3)': write parameters as name=value; overlap has no parameters
rbo(p=x)              parameter 'p' of metric 'rbo(p=x)' must be a number, not 'x'
rbo(p=nan)            parameter 'p' of metric 'rbo(p=nan)' must be a number, not 'nan'
rbo(p=0.5, p=0.6)     metric 'rbo(p=0.5, p=0.6)' has parameter 'p' twice: write it once
rbo(p=1)              rbo(p=1.0): p must be between 0 and 1, both excluded, such as rbo(p=0.9)
overlap@0             overlap@0: the depth must be at least 1
"""


def test_a_wrong_name_is_refused_with_what_to_write_instead():
    for text, message in cells(WRONG):
        with pytest.raises(MetricError) as refused:
            parse(text)

        assert str(refused.value) == message


def test_what_has_no_name_s_shape_is_refused():
    for text in ("", "rbo(", "rbo@", "rbo@-1", "rbo@1.5", "rbo(p=(1))", "rbo p", "rbo(p=0.9)x"):
        with pytest.raises(MetricError, match="cannot read metric"):
            parse(text)


def test_a_name_of_any_length_is_refused_in_one_short_line():
    with pytest.raises(
        MetricError, match=r"^cannot read metric 'r.{39}'\.\.\.: it has [0-9,]+ characters"
    ) as refused:
        parse("rbo(" + "p=1," * 20_000 + ")")

    assert len(str(refused.value)) < 130
