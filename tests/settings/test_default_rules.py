"""`rules: default`: the rules that need no numbers."""

from monitor.model.rankings import Arm
from monitor.model.rules import Keep, Learning, RuleKind, is_learned
from monitor.model.statistics import OF_BOTH_ARMS
from monitor.pipeline.score import means_too_similar
from settings.minimal import MINIMAL, RETRAIN, UNPAIRED, comparison_of, learning_of, rules_on_drift

LACKS = {
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


def watched(rules):
    """Metric, statistic, side and learning of each alert."""
    words_by_alert = {}
    for rule in rules:
        words = (*rule.subject, rule.direction, learning_of(rule) or "fixed")
        words_by_alert[rule.alert] = " ".join(map(str, words))
    return words_by_alert


def test_the_pack_watches_mean_tail_shares_coverage_and_standstill():
    rules = comparison_of(f"{MINIMAL}    rules: default\n").judging.rules
    found = watched(rules)
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
    assert found.items() >= expected.items()
    assert not found.keys() & {"NoiseExcess", "SplitOff", "SelfGapRise"}
    assert {rule.segments for rule in rules if is_learned(rule)} == {"each"}


def test_a_standstill_needs_the_lists_of_the_last_run_and_churn():
    measuring = comparison_of(f"{MINIMAL}    rules: default\n").measuring
    without = comparison_of(f"{MINIMAL}    rules: default\n    keep_lists: false\n")

    assert (measuring.keep_lists, measuring.arm_metrics[-1]) == (Keep.ALL, "self_churn")
    assert without.measuring.keep_lists is Keep.NONE
    assert RuleKind.STANDSTILL not in {rule.kind for rule in without.judging.rules}
    assert "self_churn" not in without.measuring.arm_metrics


def test_with_a_noise_floor_the_pack_watches_the_excess_over_it():
    found = watched(rules_on_drift(f"{MINIMAL}{RETRAIN}    rules: default\n"))
    assert found["NoiseExcess"] == "over_floor(extended_tau) mean above drop"
    assert found["NoiseExcessTrend"] == "over_floor(extended_tau) mean above trend"


def test_a_metric_that_grows_as_lists_drift_apart_is_watched_on_its_other_side():
    metrics = "[footrule_normalized, kendall_distance, average_overlap]"
    rules = rules_on_drift(f"{MINIMAL}    metrics: {metrics}\n    rules: default\n")

    found = watched(rules)
    assert found["SimilarityDrop"] == "footrule_normalized mean above drop"
    assert found["TailDrop"] == "footrule_normalized p95 above drop"
    assert found["SimilarityRise"] == "footrule_normalized mean below drop"
    assert "UsersBelowHalf" not in found
    names = [name for name in found if name[:4] in ("Kend", "Aver")]
    assert names == ["KendallDistanceRise", "AverageOverlapDrop"]


def test_own_rules_are_added_to_the_pack_and_replace_its_rules_of_the_same_name():
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


def test_the_pack_watches_jumps_of_every_lack_of_lists_of_both_arms():
    jumps = {
        rule.subject.statistic
        for rule in rules_on_drift(f"{MINIMAL}    rules: default\n")
        if rule.kind is RuleKind.COVERAGE and learning_of(rule) is Learning.DROP
    }
    of_each_arm = {f"{lack}({arm})" for lack in LACKS for arm in Arm}
    assert jumps == of_each_arm | {f"{lack}(candidate)" for lack in OF_BOTH_ARMS}


def test_a_jump_ends_after_two_runs_and_a_trend_after_one():
    rules = rules_on_drift(f"{MINIMAL}    rules: default\n")
    held = {(learning_of(rule), rule.resolve_after) for rule in rules}
    assert held == {(Learning.DROP, 2), (Learning.TREND, 1), (None, 1)}


def test_the_pack_of_an_unpaired_comparison_watches_gaps_and_each_arms_coverage():
    judging = comparison_of(f"{UNPAIRED}    rules: default\n").judging
    found = watched(judging.rules)
    assert {name: words for name, words in found.items() if "coverage" not in words} == {
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
    lacks = {words.split()[1].partition("(")[0] for words in found.values() if "coverage" in words}
    assert lacks == LACKS
    assert {"BaselineSharedList", "SharedListTrend"} <= found.keys()
    # Only one rule is about users whose lists moved less, so it has a small part of the budget.
    alike = [
        rule.alert
        for rule in judging.similarity_rules
        if means_too_similar(rule.metric, str(rule.statistic), rule.direction)
    ]
    assert alike == ["SelfGapDrop"]


def test_a_distance_has_a_self_gap_and_no_far_gap():
    text = f"{UNPAIRED}    metrics: [footrule_normalized]\n    rules: default\n"
    found = watched(comparison_of(text).judging.rules)
    assert found["SelfGapRise"] == "self_gap(footrule_normalized) mean above drop"
    assert "FarGapRise" not in found
