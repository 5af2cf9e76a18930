"""Why a mean fell: the drop split exactly, who carries it, which items came and went, in one sentence. No I/O, no metric.

A run does `split_distances` (per user), `average_parts` and `share_kinds` (what it keeps), and, once it has a past to be held
against (`pool_runs`, `pool_kinds`), `explain`.
"""

from monitor.explaining.causes import find_leader, rank_causes
from monitor.explaining.drop import OTHERS, Drop, SegmentDrop, decompose_all, decompose_drop, explain_drop
from monitor.explaining.explain import CodedExplanation, Difference, Past, Present, describe, explain
from monitor.explaining.exposure import ExposureShift, ItemShift, compare_exposure, rank_weights
from monitor.explaining.groups import CHANGES, Group, classify, find_medoids, group_users, pool_kinds, share_kinds
from monitor.explaining.means import average_parts, pool_runs
from monitor.explaining.missing import Missing, bound_missing
from monitor.explaining.narrowing import Narrowed, narrow
from monitor.explaining.rises import Rise, Rises, find_rises
from monitor.explaining.sentence import shorten, write_sentence
from monitor.explaining.split import Floats, Parts, Score, split_distances
from monitor.explaining.telling import tell, tell_falls

__all__ = [
    "CHANGES",
    "OTHERS",
    "CodedExplanation",
    "Difference",
    "Drop",
    "ExposureShift",
    "Floats",
    "Group",
    "ItemShift",
    "Missing",
    "Narrowed",
    "Parts",
    "Past",
    "Present",
    "Rise",
    "Rises",
    "Score",
    "SegmentDrop",
    "average_parts",
    "bound_missing",
    "classify",
    "compare_exposure",
    "decompose_all",
    "decompose_drop",
    "describe",
    "explain",
    "explain_drop",
    "find_leader",
    "find_medoids",
    "find_rises",
    "group_users",
    "narrow",
    "pool_kinds",
    "pool_runs",
    "rank_causes",
    "rank_weights",
    "share_kinds",
    "shorten",
    "split_distances",
    "tell",
    "tell_falls",
    "write_sentence",
]
