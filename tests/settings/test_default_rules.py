"""`rules: default`: the rules that need no numbers. What they watch is in golden.txt."""

from monitor.model.rules import Keep
from monitor.pipeline.score import means_too_similar
from settings.minimal import MINIMAL, UNPAIRED, comparison_of


def test_a_standstill_needs_the_lists_of_the_last_run_and_churn():
    measuring = comparison_of(f"{MINIMAL}    rules: default\n").measuring
    without = comparison_of(f"{MINIMAL}    rules: default\n    keep_lists: false\n").measuring
    assert (measuring.keep_lists, measuring.arm_metrics[-1]) == (Keep.ALL, "self_churn")
    assert without.keep_lists is Keep.NONE
    assert "self_churn" not in without.arm_metrics


def test_one_rule_of_an_unpaired_comparison_is_about_lists_that_moved_less():
    """So it has a small part of the budget of false alerts."""
    alike = [
        rule.alert
        for rule in comparison_of(f"{UNPAIRED}    rules: default\n").judging.similarity_rules
        if means_too_similar(rule.metric, str(rule.statistic), rule.direction)
    ]
    assert alike == ["SelfGapDrop"]
