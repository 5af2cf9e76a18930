"""Finds the runbook of each alert. A runbook is named like its page in docs/runbooks."""

from monitor.model.rules import BaseRule, LearnedLimit, SimilarityRule

RUNBOOKS = frozenset({
    "ArmsDiffered", "BaselineDuplicatedLists", "BaselineEmptyLists", "BaselineExposureJump",
    "BaselineFailedLists", "BaselineFewerUsers", "BaselineFrozen", "BaselineMissingLists",
    "BaselineReplacedLists", "BaselineSharedList",
    "BaselineShiftedLists", "BaselineShortLists", "BaselineStaleLists", "BaselineTopTurned", "BothFrozen",
    "CandidateFrozen", "DatabaseAway", "DuplicatedLists", "EmptyLists", "ExposureJump",
    "FailedLists", "FarGapRise", "FewerUsers", "FirstItemDiffers", "IdenticalLists", "InterleavedLists",
    "MissingLists", "NoData", "NoiseExcess", "NoiseExcessTrend", "OverlapDrop", "RboDrop",
    "ReplacedLists", "RunFailing", "SelfGapDrop", "SelfGapRise", "SelfGapTrend", "SharedList", "SharedListTrend",
    "ShiftedLists", "ShortLists", "SimilarityDrop", "SimilarityRise", "SimilarityTrend",
    "SplitOff", "Stale", "StaleLists", "TailDrop", "TooFewUsers", "TopReversed",
    "TopReversedTrend", "TopTurned", "UsersAlike", "UsersBelowHalf", "UsersBelowHalfTrend",
    "UsersBelowQuarter", "UsersBelowQuarterTrend",
})  # fmt: skip
"""The alerts that have their own runbook."""
OWN_RULE = "OwnRule"
"""The runbook of alerts whose rules the user wrote."""
OTHER_METRIC = "OtherMetric"
"""The runbook of rules that learn a metric that has no runbook of its own."""
_BY_METRIC = {"rbo": "RboDrop", "overlap": "OverlapDrop"}


def runbook_of(rule: BaseRule) -> str:
    """The name of the runbook for alerts of this rule."""
    if rule.alert in RUNBOOKS:
        return rule.alert
    if isinstance(rule, SimilarityRule) and isinstance(rule.limit, LearnedLimit):
        metric = rule.metric.partition("(")[0]
        return _BY_METRIC.get(metric, OTHER_METRIC)
    return OWN_RULE
