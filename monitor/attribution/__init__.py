"""Why a mean fell: each user's lists held against the same user's lists before, and what happened to them, in one sentence.

A run does `split_distances` and, where earlier lists are kept, `compare_pairs`, both per user; `decompose_drop` adds up by part
and segment, `find_fault` says what happened and to whom. No I/O, no metric.
"""

from monitor.attribution.changes import CHANGES, PairChanges, classify, compare_pairs, find_central, group_users, share_kinds
from monitor.attribution.decomposition import OTHERS, MeanDrop, decompose_drop, find_place, rows_of_place
from monitor.attribution.faults import Scene, find_fault
from monitor.attribution.habits import Habit, pool_bins, share_bins
from monitor.attribution.item_shifts import ExposureShift, compare_exposure
from monitor.attribution.parts import Parts, ScoreBatch, average_parts, split_distances
from monitor.attribution.sentences import (
    PART_WORDS,
    shorten_name,
    write_alert_text,
    write_distance,
    write_drop,
    write_falls,
    write_finding,
)
