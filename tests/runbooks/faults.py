"""The fault behind each alert of the default rules, and of conditions."""

from runbooks.world import TEST, Change, Fault
from unpaired import world as unpaired


def _replace(first, last):
    """Replaces the items from one place to another."""

    def change(items):
        return [*items[:first], *(f"new-{item}" for item in items[first:last]), *items[last:]]

    return change


def _swap(first, second):
    def change(items):
        items = list(items)
        items[first], items[second] = items[second], items[first]
        return items

    return change


def _no_list(_):
    return None


def _empty(_):
    return []


def _short(items):
    return items[:4]


def _duplicated(items):
    return [*items[:-1], items[0]]


def _unreadable(_):
    return [["no", "item"]]


def _promoted(items):
    return ["item-7", *items[:-1]]


def _dropped(items):
    return [*items[1:], f"new-{items[0]}"]


def _popular(_):
    return [f"item-{number}" for number in range(10)]


_OF_LISTS: dict[str, Change] = {
    "MissingLists": _no_list,
    "EmptyLists": _empty,
    "ShortLists": _short,
    "DuplicatedLists": _duplicated,
    "FailedLists": _unreadable,
    "SharedList": _popular,
}
_SMALL_RULE = "{alert: SmallSegment, metric: overlap, below: 0.2, min_users: 5000}"
_OWN_RULE = "{alert: OverlapBelowHalf, metric: overlap, below: 0.5}"

FAULTS = (
    Fault(alert="SimilarityDrop", change=_replace(0, 4)),
    Fault(alert="SimilarityTrend", change=_replace(0, 1), share=0.14, step=0.01, days=10),
    Fault(alert="TailDrop", change=_replace(0, 10), share=0.1),
    Fault(alert="UsersBelowHalf", change=_replace(0, 7), share=0.2),
    Fault(alert="UsersBelowQuarter", change=_replace(0, 10), share=0.2),
    Fault(alert="UsersBelowHalfTrend", change=_replace(0, 7), share=0.03, step=0.01, days=8),
    Fault(alert="UsersBelowQuarterTrend", change=_replace(0, 10), share=0.02, step=0.005, days=8),
    Fault(alert="NoiseExcess", has_floor=True, change=_replace(0, 4)),
    Fault(
        alert="NoiseExcessTrend",
        has_floor=True,
        change=_replace(0, 1),
        share=0.14,
        step=0.01,
        days=11,
    ),
    Fault(alert="RboDrop", change=_swap(0, 8)),
    Fault(alert="OverlapDrop", change=_replace(5, 9)),
    *(
        Fault(alert=f"{prefix}{alert}", change=change, share=0.1, arm=arm)
        for arm, prefix in (("candidate", ""), ("baseline", "Baseline"))
        for alert, change in _OF_LISTS.items()
    ),
    Fault(alert="StaleLists", share=0.2, is_stale=True),
    Fault(alert="BaselineStaleLists", share=0.2, is_stale=True, arm="baseline"),
    Fault(alert="SharedListTrend", change=_popular, share=0.005, step=0.003, days=8),
    Fault(alert="TopReversed", change=_swap(0, 2), share=0.3),
    Fault(alert="TopReversedTrend", change=_swap(0, 2), share=0.01, step=0.004, days=8),
    Fault(alert="FirstItemDiffers", change=_swap(0, 1), share=0.4),
    Fault(alert="IdenticalLists", share=0.4, is_copied=True, days=2),
    Fault(alert="ExposureJump", change=_promoted, share=0.3),
    Fault(alert="BaselineExposureJump", change=_promoted, share=0.3, arm="baseline"),
    Fault(alert="ShiftedLists", change=_dropped, share=0.4),
    Fault(alert="BaselineShiftedLists", change=_dropped, share=0.4, arm="baseline"),
    Fault(alert="SimilarityRise", is_copied=True),
    Fault(alert="InterleavedLists", is_mixed=True),
    Fault(alert="UsersAlike", share=0.3, is_copied=True),
    Fault(alert="CandidateFrozen", is_stale=True, days=4),
    Fault(alert="BaselineFrozen", is_stale=True, arm="baseline", days=4),
    Fault(alert="SelfGapRise", log={"fault": unpaired.reverse_top}),
    Fault(alert="SelfGapDrop", log={"fault": unpaired.serve_old}),
    Fault(alert="SelfGapTrend", log={"fault": unpaired.reverse_top}, days=4),
    Fault(alert="FarGapRise", log={"fault": unpaired.mix_up}),
    Fault(alert="SplitOff", log={"served": ~(TEST.is_candidate & TEST.draw(0.4)), "begins": 1}),
    Fault(alert="ArmsDiffered", log={"before": unpaired.serve_better}),
    Fault(alert="RunFailing", change=_no_list, days=2),
    Fault(alert="NoData", change=_no_list, share=0.7, days=2),
    Fault(alert="TooFewUsers", share=0.0, days=3, rules=_SMALL_RULE),
    Fault(alert="OverlapBelowHalf", change=_replace(0, 6), rules=_OWN_RULE),
    Fault(
        alert="JaccardDrop", change=_replace(5, 9), metrics=("extended_tau", "jaccard", "overlap")
    ),
)
