"""Parts of a run. A part is what was measured of some of the run's users.

`RunPart.merge` adds up parts. The result does not depend on the number and order of the parts.
Spark's executors return parts as bytes, with one Arrow stream for each table.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from heapq import nsmallest
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from monitor.measures.pairing.id_mismatches import IdComparison
from monitor.measures.pairing.list_tables import user_column
from monitor.measures.pairing.pairs import ListedItems, distinct_ids, mix
from monitor.measures.reading.ids import user_index
from monitor.measures.summaries import FineBins, ScoreSums, SummaryAccumulator
from monitor.model.arrays import Hashes
from monitor.model.model_versions import count_versions
from monitor.model.rankings import (
    Arm,
    Coverage,
    CoverageNote,
    CoverageReason,
    CoverageRow,
    Pairing,
    Pull,
    UserBatch,
)
from monitor.model.run_reasons import IdKind, IdMismatch, MismatchKind
from monitor.model.runs import MeasuredRun, Scores

_EXAMPLES = 5
"""A note names at most this many example users."""
_JSON_FIELDS = ("metrics", "failed_metrics", "unmeasured", "input_hash")
"""Fields of `RunPart` that JSON returns as they were."""
_COMPRESSION = pa.ipc.IpcWriteOptions(compression="zstd")

CoverageCounts: TypeAlias = Counter[tuple[str, str, str]]
"""Numbers of users by segment, arm and reason. Asked users and paired users have no arm."""
_ASKED = "asked"
_PAIRED = "paired"


@dataclass(slots=True, kw_only=True)
class RunPart:
    """What was measured of some users.

    - ``metrics`` are the names of the metrics that were measured.
    - ``failed_metrics`` has the error of each metric that failed for some users.
    - ``unmeasured`` are sentences about metrics that could not be measured.
    - ``listed`` are the distinct items of the lists.
    - ``id_comparison`` finds out whether both arms write item ids alike.
    - ``coverage`` counts all users, and ``subset`` counts the users of the subset.
    - ``notes`` say for each arm and reason what happened first, and name the first users.
    - ``versions`` counts the users that each version of an arm's model answered.
    - ``input_hash`` is the sum of a hash of each user and the user's lists.
    - ``users`` are the users whose lists are shown or stored. See `monitor.pipeline.shown_users`.
    """

    sums: SummaryAccumulator
    metrics: dict[str, None] = field(default_factory=dict)
    failed_metrics: dict[str, str] = field(default_factory=dict)
    unmeasured: dict[str, None] = field(default_factory=dict)
    listed: ListedItems = field(default_factory=ListedItems)
    id_comparison: IdComparison = field(default_factory=IdComparison)
    coverage: CoverageCounts = field(default_factory=Counter)
    subset: CoverageCounts = field(default_factory=Counter)
    notes: dict[tuple[Arm, CoverageReason], CoverageNote] = field(default_factory=dict)
    versions: dict[Arm, dict[str, int]] = field(default_factory=lambda: {arm: {} for arm in Arm})
    input_hash: int = 0
    users: list[pa.Table] = field(default_factory=list)

    def merge(self, other: "RunPart") -> None:
        """Add what was measured of other users. The caller adds the tables ``users``."""
        self.sums.merge(other.sums)
        self.metrics |= other.metrics
        # The first error of a metric stays.
        self.failed_metrics = other.failed_metrics | self.failed_metrics
        self.unmeasured |= other.unmeasured
        self.listed.merge(other.listed)
        self.id_comparison.merge(other.id_comparison)
        self.coverage.update(other.coverage)
        self.subset.update(other.subset)
        for (arm, reason), note in other.notes.items():
            self.add_note(arm, reason, note.text, note.users)
        for arm, versions in other.versions.items():
            count_versions(self.versions[arm], versions.items())
        self.input_hash = (self.input_hash + other.input_hash) % 2**64

    def add_lists(self, batch: UserBatch, pairing: Pairing, hashes: Hashes) -> None:
        """Count the lists of a batch, and collect their items. ``hashes`` are the users' hashes."""
        self.listed.add(pairing)
        self._count_answers(Arm.BASELINE, batch.baseline)
        self._count_answers(Arm.CANDIDATE, batch.candidate)
        self.coverage.update(counts_of(pairing.coverage))
        # The sum of hashes does not depend on the order of the users.
        self.input_hash += int(mix(hashes + pairing.input_hashes).sum(dtype=np.uint64))

    def make_measured_run(self, slot: datetime, configured_size: int | None) -> MeasuredRun:
        """Return a run with the size of the catalogue, the hash of all lists, and id mismatches.

        ``configured_size`` is the configured size of the catalogue. The size is at least the number
        of listed items. It is None if it is not configured and no items are listed.
        """
        catalogue_size = max(configured_size or 0, self.listed.count)
        return MeasuredRun(
            slot=slot,
            catalogue_size=catalogue_size or None,
            input_hash=f"{self.input_hash % 2**64:016x}",
            id_mismatches=self.id_comparison.mismatches,
        )

    def _count_answers(self, arm: Arm, pull: Pull) -> None:
        """Count the versions of the arm's model, and note why users have no list."""
        count_versions(self.versions[arm], pull.versions.items())
        for reason, text in pull.notes.items():
            users = [user for user, why in pull.failures.items() if why is reason]
            self.add_note(arm, reason, text, users)

    def add_note(self, arm: Arm, reason: CoverageReason, text: str, users: Iterable[str]) -> None:
        """Note why these users have no list. The text that was noted first stays."""
        earlier_note = self.notes.get((arm, reason), CoverageNote(text=text))
        examples = nsmallest(_EXAMPLES, (*earlier_note.users, *users))
        self.notes[arm, reason] = replace(earlier_note, users=tuple(examples))


def counts_of(coverage: Coverage) -> CoverageCounts:
    """Return the numbers of users in a coverage, by segment, arm and reason.

    Users are asked and paired for both arms together, so the arm of these numbers is "".
    """
    counts: CoverageCounts = Counter()
    for row in coverage.rows:
        counts[row.segment, "", _ASKED] = row.asked
        counts[row.segment, "", _PAIRED] = row.paired
        for (arm, reason), users in row.users_by_reason.items():
            counts[row.segment, arm, reason] = users
    return counts


def build_coverage(counts: CoverageCounts, segments: Iterable[str]) -> Coverage:
    """Return the coverage with these counts. It has one row for each segment."""
    reasons: dict[str, dict[tuple[Arm, CoverageReason], int]] = {name: {} for name in segments}
    for (segment, arm, reason), users in counts.items():
        # The numbers of asked and of paired users have the arm "", see `counts_of`.
        if arm:
            reasons[segment][Arm(arm), CoverageReason(reason)] = users
    rows = []
    for name, users_by_reason in reasons.items():
        asked = counts[name, "", _ASKED]
        paired = counts[name, "", _PAIRED]
        rows.append(
            CoverageRow(segment=name, asked=asked, paired=paired, users_by_reason=users_by_reason)
        )
    return Coverage(rows=tuple(rows))


def pack_part(part: RunPart, scores: Scores) -> bytes:
    """Write the part, and the scores that are stored, as bytes. Each table is one Arrow stream."""
    json_fields = {name: getattr(part, name) for name in _JSON_FIELDS} | {
        "ids": asdict(part.id_comparison),
        "notes": [(*key, note.text, note.users) for key, note in part.notes.items()],
        "versions": part.versions,
        "coverage": list(part.coverage.items()),
        "subset": list(part.subset.items()),
        "users": part.listed.users,
        "users_with_unweighted": part.listed.users_with_unweighted,
    }
    tables = (
        pa.table({"json": [json.dumps(json_fields)]}),
        _sums_table(part.sums),
        pa.table({"id": distinct_ids(part.listed.listed)}),
        pa.table({"id": distinct_ids(part.listed.unweighted)}),
        pa.table({"user": user_column(scores.users), **scores.by_metric}),
        *part.users,
    )
    sink = pa.BufferOutputStream()
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSION) as stream:
            stream.write_table(table)
    return bytes(sink.getvalue())


def unpack_part(data: bytes, sums: SummaryAccumulator) -> tuple[RunPart, Scores]:
    """Return the part and the scores in these bytes. Puts the part's sums into the empty ``sums``.

    Raises ValueError if the bytes are not a part.
    """
    try:
        json_table, sums_table, listed, unweighted, scores_table, *user_tables = _read_tables(data)
        json_fields = json.loads(json_table["json"][0].as_py())
        ids = json_fields["ids"]
        _add_sums(sums, sums_table)
        part = RunPart(
            sums=sums,
            **{name: json_fields[name] for name in _JSON_FIELDS},
            listed=ListedItems(
                listed=listed["id"].chunks,
                unweighted=unweighted["id"].chunks,
                users=json_fields["users"],
                users_with_unweighted=json_fields["users_with_unweighted"],
            ),
            id_comparison=IdComparison(
                batches=ids["batches"],
                mismatched=ids["mismatched"],
                spelling=_mismatch_from_json(ids["spelling"]),
                padding=_mismatch_from_json(ids["padding"]),
            ),
            coverage=_counts_from_json(json_fields["coverage"]),
            subset=_counts_from_json(json_fields["subset"]),
            versions={Arm(arm): counts for arm, counts in json_fields["versions"].items()},
            users=user_tables,
        )
        for arm, reason, text, noted_users in json_fields["notes"]:
            part.add_note(Arm(arm), CoverageReason(reason), text, noted_users)
        by_metric = {name: scores_table[name].to_numpy() for name in scores_table.column_names[1:]}
        return part, Scores(users=user_index(scores_table["user"]), by_metric=by_metric)
    except (ValueError, OSError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(type(error).__name__) from None


def _read_tables(data: bytes) -> list[pa.Table]:
    """Read the tables that `pack_part` wrote, one Arrow stream each."""
    reader = pa.BufferReader(data)
    tables = []
    while reader.tell() < reader.size():
        table = pa.ipc.open_stream(reader).read_all()
        table.validate(full=True)
        tables.append(table)
    return tables


def _counts_from_json(rows: Iterable[tuple[Any, int]]) -> CoverageCounts:
    return Counter({tuple(key): users for key, users in rows})


def _mismatch_from_json(row: dict[str, Any] | None) -> IdMismatch | None:
    """Return the mismatch from JSON, which has texts for enums and lists for tuples."""
    if row is None:
        return None
    changed = {
        "kind": MismatchKind(row["kind"]),
        "ids": IdKind(row["ids"]),
        "forms": tuple(row["forms"]),
        "examples": row["examples"] and tuple(row["examples"]),
        "arm": row["arm"] and Arm(row["arm"]),
    }
    return IdMismatch(**(row | changed))


def _sums_table(accumulator: SummaryAccumulator) -> pa.Table:
    """Return a table with one row for each segment and metric.

    Sums are text, because they can be too large for a column of integers. A row has the scores that
    are not in bins (``unbinned``), or the bins.
    """
    rows = []
    for (segment, metric), sums in accumulator.sums.items():
        bins = sums.bins
        rows.append(
            {
                "segment": segment,
                "metric": metric,
                "bounds": list(sums.bounds),
                "n": sums.n,
                "n_undefined": sums.n_undefined,
                "total": str(sums.total),
                "squares": str(sums.squares),
                "below": [{"floor": floor, "users": users} for floor, users in sums.below.items()],
                "unbinned": np.concatenate([np.empty(0), *sums.unbinned]),
                # The lower and upper end of the bins, and the lowest and highest score.
                "ends": None if bins is None else [bins.low, bins.high, bins.least, bins.most],
                "bins": None if bins is None else bins.counts,
            }
        )
    return pa.Table.from_pylist(rows)


def _add_sums(accumulator: SummaryAccumulator, table: pa.Table) -> None:
    """Put the sums of a table that `_sums_table` made into the empty accumulator."""
    unbinned = table["unbinned"]
    bins = table["bins"]
    for index, row in enumerate(table.drop_columns(["unbinned", "bins"]).to_pylist()):
        sums = ScoreSums(tuple(row["bounds"]))
        sums.n = row["n"]
        sums.n_undefined = row["n_undefined"]
        sums.total = int(row["total"])
        sums.squares = int(row["squares"])
        sums.below = {below["floor"]: below["users"] for below in row["below"]}
        sums.unbinned = [unbinned[index].values.to_numpy()]
        if row["ends"] is not None:
            low, high, lowest_score, highest_score = row["ends"]
            is_bounded = bool(np.isfinite(sums.bounds).all())
            counts = bins[index].values.to_numpy()
            sums.bins = FineBins(low, high, is_bounded, counts, lowest_score, highest_score)
        accumulator.sums[row["segment"], row["metric"]] = sums
