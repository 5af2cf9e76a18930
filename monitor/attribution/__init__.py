"""Why a mean fell: the drop split exactly, who carries it, which items came and went, in one sentence. No I/O, no metric.

A run does `split_distances` (per user), `average_parts` and `share_kinds` (what it keeps), and, once it has a past to compare
with (`pool_runs`, `pool_kinds`), `explain_metric`.
"""

from monitor.attribution.causes import Place, find_leader, find_place, rank_causes
from monitor.attribution.changes import EarlierLists, OwnLists, PairChanges, compare_pairs
from monitor.attribution.decomposition import OTHERS, MeanDrop, SegmentDrop, bound_drop, decompose_all, decompose_drop
from monitor.attribution.explanation import (
    CodedExplanation,
    CurrentRun,
    Difference,
    PastRuns,
    bin_changes,
    describe_difference,
    explain_metric,
)
from monitor.attribution.faults import Scene, find_fault
from monitor.attribution.groups import CHANGES, Group, classify, find_medoids, group_users, pool_kinds, share_kinds
from monitor.attribution.habits import Habit, pool_bins, share_bins
from monitor.attribution.item_shifts import ExposureShift, ItemShift, compare_exposure
from monitor.attribution.parts import Parts, ScoreBatch, average_parts, pool_runs, split_distances
from monitor.attribution.sentences import shorten_name, write_alert_text, write_falls, write_finding, write_sentence
from monitor.model.arrays import Floats
