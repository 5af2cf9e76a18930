"""Lists of many users as bytes: Parquet with zstd, one piece for each arm and so many users, and back.

Columns: ``user`` (text), ``items`` (list of int64 or of text), ``scores`` (list of float64, where the arm has them), and in
the baseline's pieces ``segments``: for each user the numbers of the segments that the user is in, whose names stand in the
file's metadata. Bytes that are anything else are refused with a ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.api.extensions import ExtensionArray

from monitor.model import Arm, KeptLists, RankingTable

USERS_AT_ONCE = 100_000
ITEMS_AT_ONCE = 2_000_000
"""Most users, and about the most items, of one piece."""
_LARGEST = 1 << 30
"""Bytes beyond which nothing is unpacked; pieces that we write stay far below."""
_NAMES = b"segments"


def pack(lists: KeptLists) -> Iterator[tuple[Arm, int, bytes]]:
    """Arm, number and bytes of every piece."""
    extra = {Arm.BASELINE: _memberships(lists), Arm.CANDIDATE: None}
    for arm, table in ((Arm.BASELINE, lists.baseline), (Arm.CANDIDATE, lists.candidate)):
        step = _step(table)
        for part, start in enumerate(range(0, max(len(table), 1), step)):
            piece = _piece(table, extra[arm], slice(start, min(start + step, len(table))))
            if arm is Arm.BASELINE:
                piece = piece.replace_schema_metadata({_NAMES: json.dumps(list(lists.segments)).encode()})
            yield arm, part, _written(piece)


def unpack(pieces: Mapping[Arm, Sequence[bytes]]) -> KeptLists:
    """The lists of these pieces, which stand in order; ValueError when they are damaged or do not belong together."""
    found = {arm: [_read(payload) for payload in pieces.get(arm, ())] for arm in Arm}
    _require(all(found.values()), "an arm has no pieces")
    tables = {arm: _table(pa.concat_tables(parts)) for arm, parts in found.items()}
    _require(tables[Arm.BASELINE].users.equals(tables[Arm.CANDIDATE].users), "the arms' users differ")
    return KeptLists(baseline=tables[Arm.BASELINE], candidate=tables[Arm.CANDIDATE], segments=_segments(found[Arm.BASELINE]))


def _require(is_so: bool, otherwise: str) -> None:  # noqa: FBT001 - a condition
    if not is_so:
        raise ValueError(otherwise)


def _step(table: RankingTable) -> int:
    # So that the memory that a piece takes is bounded by items too.
    longest = int(np.diff(table.offsets).max(initial=1))
    return max(1, min(USERS_AT_ONCE, ITEMS_AT_ONCE // max(longest, 1)))


def _memberships(lists: KeptLists) -> pa.ListArray:
    """For each user the numbers of the segments that the user is in, ascending: list of int32, one a user."""
    rows = np.concatenate([np.asarray(rows, dtype=np.intp) for rows in (np.empty(0), *lists.segments.values())])
    numbers = np.repeat(np.arange(len(lists.segments), dtype=np.int32), [len(rows) for rows in lists.segments.values()])
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=len(lists.baseline))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers[order]))


def _piece(table: RankingTable, memberships: pa.ListArray | None, users: slice) -> pa.Table:
    first, last = table.offsets[users.start], table.offsets[users.stop]
    offsets = pa.array((table.offsets[users.start : users.stop + 1] - first).astype(np.int32))
    columns = {
        "user": pa.array(table.users[users].array, type=pa.large_string()),
        "items": pa.ListArray.from_arrays(offsets, pa.array(table.items[first:last], type=_kind(table.items))),
    }
    if table.scores is not None:
        columns["scores"] = pa.ListArray.from_arrays(offsets, pa.array(table.scores[first:last], type=pa.float64()))
    if memberships is not None:
        columns["segments"] = memberships[users]
    return pa.table(columns)


def _kind(items: npt.NDArray[np.int64] | ExtensionArray) -> pa.DataType:
    return pa.int64() if isinstance(items, np.ndarray) else pa.large_string()


def _written(piece: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(piece, sink, compression="zstd")
    return bytes(sink.getvalue())


def _read(payload: bytes) -> pa.Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(payload))
        sizes = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
        # Asked before anything is unpacked: what a few bytes unpack to may fill the memory.
        is_small = file.metadata.num_rows <= USERS_AT_ONCE and sum(sizes) <= _LARGEST
        _require(is_small, "a piece is larger than any that is written")
        piece = file.read(use_threads=False)
        piece.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        msg = f"a piece is not Parquet: {type(error).__name__}"
        raise ValueError(msg) from None
    _require_columns(piece)
    return piece.replace_schema_metadata({_NAMES: (piece.schema.metadata or {}).get(_NAMES, b"[]")})


def _require_columns(piece: pa.Table) -> None:
    """ValueError unless the columns are of the right types and hold no nulls; a score that is not known is NaN."""
    kinds = {field.name: field.type for field in piece.schema}
    wanted = {
        "user": (pa.large_string(),),
        "items": (pa.list_(pa.int64()), pa.list_(pa.large_string())),
        "scores": (pa.list_(pa.float64()),),
        "segments": (pa.list_(pa.int32()),),
    }
    is_known = all(kind in wanted.get(name, ()) for name, kind in kinds.items())
    _require(is_known and {"user", "items"} <= set(kinds), "a piece has other columns")
    for name in kinds:
        flat = piece[name].combine_chunks()
        inner = flat if name == "user" else flat.flatten()
        _require(not (flat.null_count or inner.null_count), f"column {name} has gaps")


def _table(whole: pa.Table) -> RankingTable:
    """One arm's lists from all its pieces; ValueError for a user who is listed twice, or scores that fit no items."""
    users: pd.Index[str] = pd.Index(pd.array(whole["user"], dtype="str"))
    _require(users.is_unique, "a user is listed twice")
    items = whole["items"].combine_chunks()
    offsets, flat = _inside(items)
    scores = None
    if "scores" in whole.column_names:
        score_offsets, inner = _inside(whole["scores"].combine_chunks())
        _require(np.array_equal(score_offsets, offsets), "items and scores differ in number")
        scores = inner.to_numpy(zero_copy_only=False)
    is_number = pa.types.is_int64(flat.type)
    return RankingTable(
        users=users,
        offsets=offsets,
        items=flat.to_numpy(zero_copy_only=False) if is_number else pd.array(flat, dtype="str"),
        scores=scores,
    )


def _inside(lists: pa.ListArray) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Offsets from 0, and what the lists hold, one after the other."""
    lengths = np.diff(lists.offsets.to_numpy(zero_copy_only=False))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), lists.flatten()


def _segments(pieces: Sequence[pa.Table]) -> dict[str, npt.NDArray[np.intp]]:
    """Rows of the baseline's table by segment name, ascending; ValueError where numbers and names do not fit."""
    try:
        names = json.loads(pieces[0].schema.metadata[_NAMES])
        offsets, flat = _inside(pa.concat_tables(pieces)["segments"].combine_chunks())
    except (KeyError, ValueError):
        msg = "the segments are missing"
        raise ValueError(msg) from None
    numbers = flat.to_numpy(zero_copy_only=False)
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    _require(are_names, "the segments have no names")
    _require(bool(np.all((numbers >= 0) & (numbers < len(names)))), "a segment has no name")
    rows = np.repeat(np.arange(len(offsets) - 1, dtype=np.intp), np.diff(offsets))
    return {name: rows[numbers == number] for number, name in enumerate(names)}
