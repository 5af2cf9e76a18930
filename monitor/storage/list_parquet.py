"""Lists of many users as bytes: Parquet with zstd, one piece for each arm and so many users, and back.

Columns: ``user``, ``items``, ``scores`` where the arm has them, and in the baseline's pieces ``segments``, numbers of those
named in the file's metadata. Before each piece stands a CRC-32; other bytes than were written are a ValueError.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monitor.model.rankings import Arm, RankingTable
from monitor.model.runs import KeptLists

USERS_AT_ONCE = 100_000
ITEMS_AT_ONCE = 2_000_000
"""Most users, and about the most items, of one piece."""
END_BYTES = 1 << 16
"""Last bytes of a piece, which say what it holds unless there are very many segments."""
_NAMES = b"segments"
_CHECKED = 4  # bytes of the checksum before each piece


def pack(lists: KeptLists) -> Iterator[tuple[Arm, int, bytes]]:
    """Arm, number and bytes of every piece."""
    extra = {Arm.BASELINE: _memberships(lists), Arm.CANDIDATE: None}
    for arm, table in ((Arm.BASELINE, lists.baseline), (Arm.CANDIDATE, lists.candidate)):
        # So that the memory that a piece takes is bounded by items too.
        longest = int(np.diff(table.offsets).max(initial=1))
        step = max(1, min(USERS_AT_ONCE, ITEMS_AT_ONCE // max(longest, 1)))
        for part, start in enumerate(range(0, max(len(table), 1), step)):
            piece = _piece(table, extra[arm], slice(start, min(start + step, len(table))))
            if arm is Arm.BASELINE:
                piece = piece.replace_schema_metadata(
                    {_NAMES: json.dumps(list(lists.segments)).encode()}
                )
            yield arm, part, _written(piece)


def unpack(pieces: Mapping[Arm, Sequence[bytes]]) -> KeptLists:
    """The lists of these pieces, which stand in order.

    ValueError when they are damaged or do not belong together.
    """
    found = {
        arm: [_opened(payload).read(use_threads=False) for payload in pieces.get(arm, ())]
        for arm in Arm
    }
    _require(all(found.values()), "an arm has no pieces")
    wholes = {arm: pa.concat_tables(parts) for arm, parts in found.items()}
    baseline, candidate = (_table(wholes[arm]) for arm in Arm)
    _require(baseline.users.equals(candidate.users), "the arms' users differ")
    return KeptLists(
        baseline=baseline, candidate=candidate, segments=_segments(wholes[Arm.BASELINE])
    )


def may_hold(end: bytes, user: str) -> bool:
    """Whether the piece with these last bytes may have the user: by the first and last id, which Parquet writes behind all."""
    try:
        users = pq.read_metadata(pa.BufferReader(end)).row_group(0).column(0).statistics
    except (ValueError, IndexError, OSError):
        return True  # the bytes do not reach that far, or are damaged, which reading the piece says
    return users is None or not users.has_min_max or users.min <= user <= users.max


def find_user(payload: bytes, user: str) -> tuple[str, ...] | None:
    """The items of one user's list in this piece; None where the user is in another one."""
    file = _opened(payload)
    users = file.read(columns=["user"], use_threads=False)["user"]
    row = pc.index(users, pa.scalar(user, pa.large_string())).as_py()
    return (
        None
        if row < 0
        else tuple(map(str, file.read(columns=["items"], use_threads=False)["items"][row].as_py()))
    )


def _require(is_so: bool, otherwise: str) -> None:  # noqa: FBT001 - a condition
    if not is_so:
        raise ValueError(otherwise)


def _memberships(lists: KeptLists) -> pa.ListArray:
    """For each user the numbers of the segments that the user is in, ascending: list of int32, one a user."""
    rows = np.concatenate(
        [np.asarray(rows, dtype=np.intp) for rows in (np.empty(0), *lists.segments.values())]
    )
    numbers = np.repeat(
        np.arange(len(lists.segments), dtype=np.int32),
        [len(rows) for rows in lists.segments.values()],
    )
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=len(lists.baseline))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers[order]))


def _piece(table: RankingTable, memberships: pa.ListArray | None, users: slice) -> pa.Table:
    first, last = table.offsets[users.start], table.offsets[users.stop]
    offsets = pa.array((table.offsets[users.start : users.stop + 1] - first).astype(np.int32))
    kind = pa.int64() if isinstance(table.items, np.ndarray) else pa.large_string()
    columns = {
        "user": pa.array(table.users[users].array, type=pa.large_string()),
        "items": pa.ListArray.from_arrays(offsets, pa.array(table.items[first:last], type=kind)),
    }
    if table.scores is not None:
        columns["scores"] = pa.ListArray.from_arrays(
            offsets, pa.array(table.scores[first:last], type=pa.float64())
        )
    if memberships is not None:
        columns["segments"] = memberships[users]
    return pa.table(columns)


def _written(piece: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(piece, sink, compression="zstd")
    content = bytes(sink.getvalue())
    return _checksum(content) + content


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKED, "big")


def _opened(payload: bytes) -> pq.ParquetFile:
    """The piece, if it is what was written; Parquet itself does not tell."""
    is_without = payload.startswith(b"PAR1")  # as earlier versions wrote it
    content = payload if is_without else payload[_CHECKED:]
    _require(
        is_without or _checksum(content) == payload[:_CHECKED], "a piece is not what was written"
    )
    return pq.ParquetFile(pa.BufferReader(content))


def _table(whole: pa.Table) -> RankingTable:
    offsets, flat = _inside(whole["items"].combine_chunks())
    has_scores, is_number = "scores" in whole.column_names, pa.types.is_int64(flat.type)
    return RankingTable(
        users=pd.Index(pd.array(whole["user"], dtype="str")),
        offsets=offsets,
        items=flat.to_numpy(zero_copy_only=False) if is_number else pd.array(flat, dtype="str"),
        scores=whole["scores"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        if has_scores
        else None,
    )


def _inside(lists: pa.ListArray) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Offsets from 0, and what the lists hold, one after the other."""
    lengths = np.diff(lists.offsets.to_numpy(zero_copy_only=False))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), lists.flatten()


def _segments(whole: pa.Table) -> dict[str, npt.NDArray[np.intp]]:
    """Rows of the baseline's table by segment name, ascending.

    ValueError for the candidate's, which has none.
    """
    _require("segments" in whole.column_names, "the segments are missing")
    offsets, flat = _inside(whole["segments"].combine_chunks())
    numbers = flat.to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(offsets) - 1, dtype=np.intp), np.diff(offsets))
    names = json.loads(whole.schema.metadata[_NAMES])
    return {name: rows[numbers == number] for number, name in enumerate(names)}
