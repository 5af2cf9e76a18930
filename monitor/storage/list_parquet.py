"""Lists of many users as pieces of Parquet with zstd, and back.

A piece has the lists of one arm for up to `USERS_AT_ONCE` users. Columns: ``user``, ``items``,
``scores`` if the arm has them. The baseline's pieces also have ``segments``: numbers of the names
in the file's metadata. Each page has a checksum. Damaged bytes raise ValueError or OSError.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monitor.model.arrays import Integers, Rows
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm, RankingTable
from monitor.model.runs import KeptLists

USERS_AT_ONCE = 100_000
ITEMS_AT_ONCE = 2_000_000
"""The largest number of users, and about the largest number of items, of one piece."""
_NAMES = b"segments"


@immutable
class Piece:
    """Lists of one arm. ``first_user`` and ``last_user`` are the ends of its users in UTF-8."""

    arm: Arm
    part: int
    first_user: bytes
    last_user: bytes
    payload: bytes


def pack(lists: KeptLists) -> Iterator[Piece]:
    """Yield every piece."""
    memberships = _memberships(lists)
    names = {_NAMES: json.dumps(list(lists.segments)).encode()}
    tables = {Arm.BASELINE: lists.baseline, Arm.CANDIDATE: lists.candidate}
    for arm, table in tables.items():
        # A piece has a bounded number of items too, which bounds its memory.
        longest = int(np.diff(table.offsets).max(initial=1))
        step = max(1, min(USERS_AT_ONCE, ITEMS_AT_ONCE // longest))
        for part, start in enumerate(range(0, max(len(table), 1), step)):
            users = slice(start, min(start + step, len(table)))
            piece = _piece(table, users)
            if arm is Arm.BASELINE:
                piece = piece.append_column("segments", memberships[users])
                piece = piece.replace_schema_metadata(names)
            ends = pc.min_max(piece["user"]).as_py()
            yield Piece(
                arm=arm,
                part=part,
                first_user=user_key(ends["min"] or ""),
                last_user=user_key(ends["max"] or ""),
                payload=_encode(piece),
            )


def user_key(user: str) -> bytes:
    """Return the user's id in UTF-8, which databases order by code point."""
    return user.encode(errors="surrogatepass")


def unpack(pieces: Mapping[Arm, Sequence[bytes]]) -> KeptLists:
    """Return the lists of these pieces. The pieces of each arm must be in order.

    ValueError or OSError if they are damaged. ValueError if they do not belong together.
    """
    tables = []
    for arm in Arm:
        files = map(_open, pieces.get(arm, ()))
        parts = [file.read(use_threads=False) for file in files]
        _require(bool(parts), "an arm has no pieces")
        tables.append(pa.concat_tables(parts))
    baseline, candidate = map(_rankings, tables)
    _require(baseline.users.equals(candidate.users), "the arms' users differ")
    return KeptLists(baseline=baseline, candidate=candidate, segments=_segments(tables[0]))


def find_user(payload: bytes, user: str) -> tuple[str, ...] | None:
    """Return the items of the user's list; None if the user is not in this piece."""
    file = _open(payload)
    users = file.read(columns=["user"], use_threads=False)["user"]
    row = pc.index(users, pa.scalar(user, pa.large_string())).as_py()
    if row < 0:
        return None
    lists = file.read(columns=["items"], use_threads=False)["items"]
    return tuple(map(str, lists[row].as_py()))


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 - a condition
    if not condition:
        raise ValueError(message)


def _memberships(lists: KeptLists) -> pa.ListArray:
    """Return each user's segment numbers, ascending: one list of int32 for each user."""
    segments = lists.segments.values()
    rows = np.concatenate([np.empty(0, dtype=np.intp), *segments])
    sizes = [len(segment) for segment in segments]
    numbers = np.repeat(np.arange(len(segments), dtype=np.int32), sizes)
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=len(lists.baseline))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers[order]))


def _piece(table: RankingTable, users: slice) -> pa.Table:
    ends = table.offsets[users.start : users.stop + 1]
    first = ends[0]
    last = ends[-1]
    offsets = pa.array((ends - first).astype(np.int32))
    kind = pa.int64() if isinstance(table.items, np.ndarray) else pa.large_string()
    items = pa.array(table.items[first:last], type=kind)
    columns = {
        "user": pa.array(table.users[users].array, type=pa.large_string()),
        "items": pa.ListArray.from_arrays(offsets, items),
    }
    if table.scores is not None:
        scores = pa.array(table.scores[first:last], type=pa.float64())
        columns["scores"] = pa.ListArray.from_arrays(offsets, scores)
    return pa.table(columns)


def _encode(piece: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(piece, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def _open(payload: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(payload), page_checksum_verification=True)


def _rankings(table: pa.Table) -> RankingTable:
    offsets, flat = _flatten(table["items"])
    scores = None
    if "scores" in table.column_names:
        scores = _flatten(table["scores"])[1].to_numpy(zero_copy_only=False)
    if pa.types.is_int64(flat.type):
        items = flat.to_numpy(zero_copy_only=False)
    else:
        items = pd.array(flat, dtype="str")
    users = pd.Index(pd.array(table["user"], dtype="str"))
    return RankingTable(users=users, offsets=offsets, items=items, scores=scores)


def _flatten(column: pa.ChunkedArray) -> tuple[Integers, pa.Array]:
    """Return offsets from 0, and the values of all lists, one list after the other."""
    lists = column.combine_chunks()
    lengths = np.diff(lists.offsets.to_numpy(zero_copy_only=False))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return offsets.astype(np.int64), lists.flatten()


def _segments(table: pa.Table) -> dict[str, Rows]:
    """Return the ascending rows of each segment in the baseline's table, by the segment's name.

    ValueError for the candidate's table, which has no segments.
    """
    _require("segments" in table.column_names, "the segments are missing")
    offsets, flat = _flatten(table["segments"])
    numbers = flat.to_numpy(zero_copy_only=False)
    lengths = np.diff(offsets)
    rows = np.repeat(np.arange(len(lengths), dtype=np.intp), lengths)
    names = json.loads(table.schema.metadata[_NAMES])
    return {name: rows[numbers == number] for number, name in enumerate(names)}
