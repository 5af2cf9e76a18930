"""Compare two files of lists. This needs no configuration and no database.

This module stores and sends nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pandas as pd

from monitor.measures.arm_metrics import measure_arms, parse_arm_metric
from monitor.measures.metrics import Metric, chance_scores, typical_length
from monitor.measures.pairing.id_mismatches import LEAST_COMMON_SHARE, find_user_mismatch
from monitor.model.arrays import Floats, Rows
from monitor.model.errors import InputError, SourceError
from monitor.model.explanation import Change, PartMeans
from monitor.model.immutable import immutable
from monitor.model.instants import utc_now
from monitor.model.ports import UserSource
from monitor.model.rankings import Arm, Coverage, CoverageReason, CoverageRow, PairBatch, UserTable
from monitor.model.rules import Comparison, JudgingPlan, Keep, MeasuringPlan
from monitor.model.run_reasons import IdMismatch
from monitor.model.runs import ArmScore, Evidence, EvidenceKind, Scores, Summary
from monitor.model.statistics import ListTrait
from monitor.pipeline.accumulator import RunAccumulator
from monitor.pipeline.pull import ComparisonSources, draw_panel, pull_all
from monitor.pipeline.run_explanation import can_split, split_metric
from monitor.pipeline.user_batches import users_at_once
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.list_lengths import count_longest
from monitor.sources.file.source import FileLists, FileUsers
from monitor.statistics.attribution.changes import classify_changes, share_kinds
from monitor.statistics.attribution.parts import average_parts
from monitor.texts.id_mismatches import Surface, write_mismatch
from monitor.texts.interpretation import write_longer

MOST_COMPARED_SEGMENTS = 100
_COMPARE_DEADLINE = timedelta(hours=12)
_UNREAD_REASONS = frozenset({CoverageReason.UNAVAILABLE, CoverageReason.TIMEOUT})
_OF_USERS = {"path", "user", "user_ids", "format", "max_bytes", "max_unreadable", "follow_links"}


@immutable
class ChangeBreakdown:
    """How the two lists of a user differ, summarized over the users of a segment."""

    metric: str
    # The mean distance from identical lists, split into parts. None if the metric cannot be split.
    parts: PartMeans | None
    shares: Mapping[Change, float]  # the share of users for each kind of change


def break_down_changes(
    batch: PairBatch,
    metric: Metric,
    segments: Mapping[str, Rows],
) -> dict[str, ChangeBreakdown]:
    """Return for each segment how the two lists of a user differ.

    ``segments`` has the rows of each segment in the batch. The function scores the batch up to six
    times.
    """
    kinds = classify_changes(batch)
    parts = split_metric(batch, metric) if can_split(metric) else None
    breakdowns = {}
    for segment, rows in segments.items():
        breakdowns[segment] = ChangeBreakdown(
            metric=str(metric),
            parts=None if parts is None else average_parts(parts, rows),
            shares=share_kinds(kinds[rows]),
        )
    return breakdowns


@immutable
class FileComparison:
    """The result of comparing two files' lists."""

    coverage: Coverage
    summaries: tuple[Summary, ...]
    worst: tuple[Evidence, ...]
    catalogue_size: int  # the number of items as given, or else the number of listed items
    length: int | None  # the typical length of compared lists
    # The expected score of random lists, by metric. None if the lists have no typical length.
    by_chance: Mapping[str, float | None]
    # how the lists differ, by segment; distances are those of the first metric
    apart: Mapping[str, ChangeBreakdown]
    # The users' distances from identical lists by the first metric, (n,). None without a value.
    distances: Floats | None
    shared: tuple[ArmScore, ...]  # by segment and arm, the share of users with the most common list
    first_differs: Mapping[str, ArmScore]  # by segment, the share whose first item differs
    notes: tuple[str, ...]  # sentences about data that was left out
    id_mismatches: tuple[IdMismatch, ...]


def compare_files(  # noqa: PLR0913 - the options of the command
    lists: tuple[FileSourceOptions, FileSourceOptions],
    metrics: Sequence[Metric],
    k: int,
    *,
    users: FileUsersOptions | None,
    also_in: FileSourceOptions | None = None,
    by: str | None = None,
    worst: int = 0,
    catalogue: int | None = None,
) -> FileComparison:
    """Compare the lists of two files, the baseline's first, for all users and by segment.

    Users that are not in the file ``also_in`` are left out. A note says how many these are.

    ``users`` selects users from a file. ``by`` is the column with the segment of a user. It is a
    column of this file, or of the baseline's file if ``users`` is None. The result shows the
    ``worst`` users whose lists are least similar by the first metric.

    Raises InputError for an unreadable file, for files that have no users in common, or for a
    ``catalogue`` that is too small.
    """
    comparison = _make_comparison(metrics, k, worst)
    slot = utc_now()
    # The options for reading the users of each file of lists.
    listed = [_users_of(options) for options in lists]
    source: UserSource = _Either(*map(FileUsers, listed))
    if users is not None:
        source = FileUsers(users)
    within = None
    if also_in is not None:
        within = _Within(source, FileUsers(_users_of(also_in)), also_in.path)
        source = within
    sources = ComparisonSources(
        baseline=FileLists(lists[0]),
        candidate=FileLists(lists[1]),
        users=source,
        dimensions=() if by is None else (by,),
    )
    try:
        panel = draw_panel(comparison, sources, slot, _COMPARE_DEADLINE.total_seconds())
    except SourceError as error:
        raise InputError(sources.error_text(error)) from None
    answers = pull_all(comparison, sources, panel, slot, _COMPARE_DEADLINE.total_seconds())
    results = RunAccumulator(comparison, answers.asked)
    for batch in answers.batches(users_at_once(k)):
        results.add(batch)
    _require_read(results.notes)
    notes = [f"{reason} in {arm}: {note}" for (arm, reason), note in results.notes.items()]
    if within is not None and within.left_out:
        notes.append(f"left out, because {within.path} lacks them: {within.left_out:,} users")
    coverage = results.coverage.all
    _require_pairs(coverage, notes, listed, slot)
    run, subset = results.finish(slot)
    catalogue = _check_catalogue(catalogue, results.part.listed.count)
    pairs = subset.pairing.batch
    sampled = len(pairs.baseline_lengths)
    if sampled < coverage.paired:
        notes.append(
            f"scores are of all users; how the lists differ is seen in a sample of {sampled:,} of "
            f"{coverage.paired:,} users"
        )
    lengths = np.append(pairs.baseline_lengths, pairs.candidate_lengths)
    length = typical_length(lengths.astype(np.int64))
    notes += _write_longer(lists, k, slot)
    first_differs = measure_arms(
        pairs, subset.segments, [parse_arm_metric(ListTrait.FIRST_DIFFERS)]
    )
    return FileComparison(
        coverage=results.coverage,
        summaries=run.summaries,
        worst=tuple(shown for shown in run.evidence if shown.kind is EvidenceKind.WORST),
        catalogue_size=catalogue,
        length=length,
        by_chance=chance_scores(metrics, length, catalogue),
        apart=break_down_changes(pairs, metrics[0], subset.segments),
        distances=_distances(metrics[0], subset.scores),
        shared=measure_arms(pairs, subset.segments, [parse_arm_metric(ListTrait.SHARED)]),
        first_differs={score.segment: score for score in first_differs},
        notes=(*notes, *answers.unread_inputs, *results.left_out),
        id_mismatches=(*run.id_mismatches, *_compare_users(coverage, listed, slot)),
    )


def _check_catalogue(catalogue: int | None, listed_items: int) -> int:
    """Return the number of items in the catalogue. By default these are the listed items."""
    if catalogue is None:
        return listed_items
    if catalogue < listed_items:
        raise InputError(
            f"--catalogue {catalogue} is too small: {listed_items} different items are listed. "
            "Give the number of all items"
        )
    return catalogue


def _require_read(notes: Mapping[tuple[Arm, CoverageReason], object]) -> None:
    """Raise InputError if the lists of an arm could not be read."""
    arms_by_problem = defaultdict[str, list[str]](list)
    for (arm, reason), note in notes.items():
        if reason in _UNREAD_REASONS:
            arms_by_problem[str(note)].append(arm)
    problems = [f"{' and '.join(arms)}: {problem}" for problem, arms in arms_by_problem.items()]
    if problems:
        raise InputError("; ".join(problems))


def _distances(metric: Metric, scores: Scores) -> Floats | None:
    """Return the users' distances from identical lists, or None if the metric has no such value."""
    if metric.identical is None:
        return None
    distances = np.abs(metric.identical - scores.by_metric[str(metric)])
    return distances[~np.isnan(distances)]


def _write_longer(lists: Sequence[FileSourceOptions], k: int, slot: datetime) -> list[str]:
    """Return a sentence if the lists of a file have more than k items."""
    longest = max(count_longest(options, slot) for options in lists)
    if longest <= k or k == 1:  # -k 1 asks for the first item
        return []
    return [write_longer(longest, k)]


@dataclass(frozen=True, slots=True)
class _Either:
    """The users that are in at least one file. Their segments come from the baseline's file."""

    baseline: UserSource
    candidate: UserSource

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        baseline = self.baseline.users(slot, dimensions)
        candidate = self.candidate.users(slot, ())
        users = pd.Index(baseline.users.union(candidate.users, sort=False), dtype="str")
        rows = baseline.users.get_indexer(users)
        segments = {}
        for name, values in baseline.segments.items():
            segments[name] = values.take(rows, allow_fill=True)
        return UserTable(users=users, segments=segments)


@dataclass(slots=True)
class _Within:
    """The users of a source that are in the file ``other`` too."""

    source: UserSource
    other: UserSource
    path: str  # of ``other``
    left_out: int = 0  # how many users of the source are not in ``other``

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        table = self.source.users(slot, dimensions)
        others = self.other.users(slot, ()).users
        is_within = table.users.isin(others)
        self.left_out = int((~is_within).sum())
        if not is_within.any():
            raise SourceError(
                f"{self.path} has none of the {len(table.users):,} users: it has users such as "
                f"{_example(others)}, and the compared files have users such as "
                f"{_example(table.users)}"
            )
        segments = {name: values[is_within] for name, values in table.segments.items()}
        return UserTable(users=table.users[is_within], segments=segments)


def _example(users: "pd.Index[str]") -> str:
    return repr(users[0]) if len(users) else "none"


def _users_of(lists: FileSourceOptions) -> FileUsersOptions:
    """Return the options of the users in a file of lists."""
    return FileUsersOptions(**lists.model_dump(include=_OF_USERS))


def _compare_users(
    coverage: CoverageRow,
    listed: Sequence[FileUsersOptions],
    slot: datetime,
) -> tuple[IdMismatch, ...]:
    """Return why the user ids of the two files do not match, if most users could not be paired."""
    if coverage.paired >= LEAST_COMMON_SHARE * coverage.asked:
        return ()
    baseline, candidate = (FileUsers(options).users(slot, ()).users for options in listed)
    mismatch = find_user_mismatch(baseline, candidate)
    if mismatch is None:
        return ()
    return (mismatch,)


def _require_pairs(
    coverage: CoverageRow,
    notes: Sequence[str],
    listed: Sequence[FileUsersOptions],
    slot: datetime,
) -> None:
    """Raise InputError if no user could be compared. The error has all that explains it."""
    if coverage.paired:
        return
    reasons = ", ".join(
        f"{count:,} {reason} in {arm}" for (arm, reason), count in coverage.users_by_reason.items()
    )
    failure = (
        f"none of {coverage.asked:,} users could be compared ({reasons}): check that both files "
        "have the same users, and that the options name the columns of users and items"
    )
    parts = [failure, *notes]
    for mismatch in _compare_users(coverage, listed, slot):
        parts.append(write_mismatch(mismatch, Surface.COMMAND))
    raise InputError("; ".join(parts))


def _make_comparison(metrics: Sequence[Metric], k: int, worst: int) -> Comparison:
    """Return a comparison of all users that stores no scores and has no rules."""
    measuring = MeasuringPlan(
        k=k,
        metrics=tuple(map(str, metrics)),
        sample=None,
        seed=0,
        max_segment_values=MOST_COMPARED_SEGMENTS,
        deadline=_COMPARE_DEADLINE,
        keep_scores=Keep.NONE,
        evidence_users=worst,
    )
    judging = JudgingPlan(rules=(), min_paired_share=0.0)
    return Comparison(name="compare", config_hash="", measuring=measuring, judging=judging)
