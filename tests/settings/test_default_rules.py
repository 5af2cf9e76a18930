"""`rules: default`: the rules that need no numbers."""

from monitor.model.rules import Keep, Learning, RuleKind, is_learned
from monitor.model.statistics import OF_BOTH_ARMS
from monitor.pipeline.score import means_too_similar
from settings.minimal import MINIMAL, RETRAIN, UNPAIRED, comparison_of, learning_of, rules_on_drift


def watched(rules):
    """Metric, statistic, side and learning of each alert."""
    told = {}
    for rule in rules:
        learning = learning_of(rule)
        words = (*rule.subject, rule.direction.value, learning.value if learning else "fixed")
        told[rule.alert] = " ".join(map(str, words))
    return told


def test_the_pack_watches_mean_tail_shares_coverage_and_standstill():
    found = comparison_of(f"{MINIMAL}    rules: default\n")

    told = watched(found.judging.rules)
    expected = {
        "SimilarityDrop": "extended_tau mean below drop",
        "SimilarityTrend": "extended_tau mean below trend",
        "TailDrop": "extended_tau p05 below drop",
        "UsersBelowHalf": "extended_tau share_below(0) above drop",
        "UsersBelowQuarterTrend": "extended_tau share_below(-0.5) above trend",
        "SimilarityRise": "extended_tau mean above drop",
        "UsersAlike": "coverage alike_list(candidate) above drop",
        "RboDrop": "rbo(p=0.9) mean below drop",
        "TopReversedTrend": "coverage top_reversed(candidate) above trend",
        "MissingLists": "coverage missing(candidate) above drop",
        "CandidateFrozen": "frozen candidate above fixed",
    }
    assert told.items() >= expected.items()
    assert "NoiseExcess" not in told
    assert {rule.segments for rule in found.judging.rules if is_learned(rule)} == {"each"}


def test_a_standstill_needs_the_lists_of_the_last_run_and_churn():
    found = comparison_of(f"{MINIMAL}    rules: default\n")
    without = comparison_of(f"{MINIMAL}    rules: default\n    keep_lists: false\n")

    assert (found.measuring.keep_lists, found.measuring.arm_metrics[-1]) == (Keep.ALL, "self_churn")
    assert without.measuring.keep_lists is Keep.NONE
    assert RuleKind.STANDSTILL not in {rule.kind for rule in without.judging.rules}
    assert "self_churn" not in without.measuring.arm_metrics


def test_with_a_noise_floor_the_pack_watches_the_excess_over_it():
    rules = rules_on_drift(f"{MINIMAL}{RETRAIN}    rules: default\n")

    told = watched(rules)
    assert told["NoiseExcess"] == "over_floor(extended_tau) mean above drop"
    assert told["NoiseExcessTrend"] == "over_floor(extended_tau) mean above trend"


def test_a_measure_that_grows_as_lists_drift_apart_is_watched_on_its_other_side():
    metrics = "[footrule_normalized, kendall_distance, average_overlap]"
    rules = rules_on_drift(f"{MINIMAL}    metrics: {metrics}\n    rules: default\n")

    told = watched(rules)
    assert told["SimilarityDrop"] == "footrule_normalized mean above drop"
    assert told["TailDrop"] == "footrule_normalized p95 above drop"
    assert told["SimilarityRise"] == "footrule_normalized mean below drop"
    assert "UsersBelowHalf" not in told
    assert [name for name in told if name[:4] in ("Kend", "Aver")] == [
        "KendallDistanceRise",
        "AverageOverlapDrop",
    ]


def test_the_pack_stands_beside_own_rules_and_gives_way_to_those_of_its_names():
    text = f"""{MINIMAL}    default_rules: true
    rules:
      - {{alert: Low, metric: extended_tau, below: 0.2}}
      - {{alert: TailDrop, metric: extended_tau, statistic: p10, learned: drop}}
"""
    rules = rules_on_drift(text)

    assert [rule.alert for rule in rules][:2] == ["Low", "TailDrop"]
    assert [rule.subject.statistic for rule in rules if rule.alert == "TailDrop"] == ["p10"]
    assert "SimilarityDrop" in {rule.alert for rule in rules}


def test_a_rule_has_the_parameters_of_its_metric_if_two_watched_metrics_differ_only_in_them():
    metrics = "[overlap, rbo(p=0.9), rbo(p=0.98)]"
    rules = rules_on_drift(f"{MINIMAL}    metrics: {metrics}\n    rules: default\n")

    names = [rule.alert for rule in rules if rule.alert.startswith("Rbo")]
    assert names == ["RboP09Drop", "RboP098Drop"]


def test_the_pack_knows_every_lack_of_lists_of_both_arms():
    rules = rules_on_drift(f"{MINIMAL}    rules: default\n")

    jumps = {
        rule.subject.statistic: rule.alert
        for rule in rules
        if rule.kind is RuleKind.COVERAGE and learning_of(rule) is Learning.DROP
    }
    traits = ("missing", "empty", "short", "duplicated", "failed")
    traits += ("shared_list", "unchanged_list", "exposure_jump", "shifted_list")  # type: ignore[assignment]
    of_both = {f"{trait}(candidate)" for trait in OF_BOTH_ARMS}
    assert (
        set(jumps)
        == {f"{trait}({arm})" for trait in traits for arm in ("baseline", "candidate")} | of_both
    )


def test_what_one_run_finds_has_to_be_over_for_two_runs_and_what_many_found_for_one():
    rules = rules_on_drift(f"{MINIMAL}    rules: default\n")

    held = {(learning_of(rule), rule.resolve_after) for rule in rules}
    assert held == {(Learning.DROP, 2), (Learning.TREND, 1), (None, 1)}


def test_the_pack_of_an_unpaired_comparison_watches_gaps_and_each_arms_coverage():
    found = comparison_of(f"{UNPAIRED}    rules: default\n")
    told = watched(found.judging.rules)
    assert {name: words for name, words in told.items() if "coverage" not in words} == {
        "SelfGapRise": "self_gap(extended_tau) mean above drop",
        "SelfGapDrop": "self_gap(extended_tau) mean below drop",
        "SelfGapTrend": "self_gap(extended_tau) mean above trend",
        "FarGapRise": "far_gap(extended_tau) mean above drop",
        "RunFailing": "condition error above fixed",
        "NoData": "condition no_data above fixed",
        "TooFewUsers": "condition too_few above fixed",
        "Stale": "condition stale above fixed",
        "SplitOff": "condition split_off above fixed",
        "ArmsDiffered": "condition arms_differed above fixed",
    }
    traits = {words.split()[1].partition("(")[0] for words in told.values() if "coverage" in words}
    assert traits == {
        "missing",
        "empty",
        "short",
        "duplicated",
        "failed",
        "shared_list",
        "unchanged_list",
        "exposure_jump",
        "shifted_list",
    }
    assert {"BaselineSharedList", "SharedListTrend"} <= set(told)
    # Only one rule is about users whose lists moved less, so it has a small part of the budget.
    alike = [
        rule.alert
        for rule in found.judging.similarity_rules
        if means_too_similar(rule.metric, str(rule.statistic), rule.direction)
    ]
    assert alike == ["SelfGapDrop"]
    paired = comparison_of(f"{MINIMAL}    rules: default\n")
    assert not {"SplitOff", "SelfGapRise"} & set(watched(paired.judging.rules))


def test_a_distance_has_a_self_gap_and_no_far_gap():
    text = f"{UNPAIRED}    metrics: [footrule_normalized]\n    rules: default\n"
    told = watched(comparison_of(text).judging.rules)
    assert told["SelfGapRise"] == "self_gap(footrule_normalized) mean above drop"
    assert "FarGapRise" not in told
