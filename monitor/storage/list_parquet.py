"""Packs the lists of many users into pieces of Parquet, and unpacks the pieces.

A piece contains the lists of one arm for up to `PIECE_USERS` users. Its columns are ``user``,
``items`` and, if the arm has scores, ``scores``. The baseline's pieces also have a column
``segments`` with the numbers of each user's segments. The names of the segments are in the file's
metadata. Pieces are compressed with zstd. Every page of Parquet has a checksum, so damaged bytes
raise ValueError or OSError.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monitor.measures.pairing.list_tables import (
    list_column,
    rankings,
    rows_by_segment,
    segment_column,
    user_column,
)
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm, RankingTable
from monitor.model.runs import KeptLists

PIECE_USERS = 100_000
PIECE_ITEMS = 2_000_000
"""A piece contains at most this many users, and about this many items."""
_SEGMENTS = "segments"
"""The column with the numbers of each user's segments."""
_SEGMENT_NAMES = b"segments"
"""The key of the segments' names in the file's metadata."""


@immutable
class ListPiece:
    """Lists of one arm as a Parquet file, the ``payload``.

    ``first_user`` and ``last_user`` are the lowest and the highest user id in UTF-8.
    """

    arm: Arm
    part: int
    first_user: bytes
    last_user: bytes
    payload: bytes


def pack(lists: KeptLists) -> Iterator[ListPiece]:
    """Yield the pieces of both arms.

    An arm without users has one piece without rows, from which `unpack` reads the columns. Only the
    baseline's pieces have the users' segments, because both arms have the same users.
    """
    names = list(lists.segments)
    segments = segment_column(lists.segments, names, len(lists.baseline))
    metadata = {_SEGMENT_NAMES: json.dumps(names).encode()}
    for part, rows in enumerate(_divide_rows(lists.baseline)):
        piece = _to_arrow(lists.baseline, rows).append_column(_SEGMENTS, segments[rows])
        yield _pack_piece(Arm.BASELINE, part, piece.replace_schema_metadata(metadata))
    for part, rows in enumerate(_divide_rows(lists.candidate)):
        yield _pack_piece(Arm.CANDIDATE, part, _to_arrow(lists.candidate, rows))


def _divide_rows(table: RankingTable) -> Iterator[slice]:
    """Yield the range of rows of each piece. There is at least one piece."""
    list_lengths = np.diff(table.offsets)
    longest = int(list_lengths.max(initial=1))
    # The number of items is limited too, so that a piece needs little memory.
    piece_users = max(1, min(PIECE_USERS, PIECE_ITEMS // longest))
    for start in range(0, max(len(table), 1), piece_users):
        yield slice(start, min(start + piece_users, len(table)))


def _pack_piece(arm: Arm, part: int, piece: pa.Table) -> ListPiece:
    # Both are None if the piece is empty.
    lowest_and_highest = pc.min_max(piece["user"]).as_py()
    return ListPiece(
        arm=arm,
        part=part,
        first_user=encode_user(lowest_and_highest["min"] or ""),
        last_user=encode_user(lowest_and_highest["max"] or ""),
        payload=_encode(piece),
    )


def encode_user(user: str) -> bytes:
    """Return the user's id in UTF-8, which databases order by code point."""
    return user.encode(errors="surrogatepass")


def unpack(pieces: Mapping[Arm, Sequence[bytes]]) -> KeptLists:
    """Return the lists in the Parquet files of both arms, which are in the order of `pack`.

    Raises ValueError or OSError if a piece is damaged, and ValueError if the pieces do not belong
    together.
    """
    tables = {}
    for arm in Arm:
        parts = [_open(payload).read(use_threads=False) for payload in pieces.get(arm, ())]
        _require(bool(parts), "an arm has no pieces")
        tables[arm] = pa.concat_tables(parts)
    with_segments = tables[Arm.BASELINE]
    baseline = rankings(with_segments)
    candidate = rankings(tables[Arm.CANDIDATE])
    _require(baseline.users.equals(candidate.users), "the arms' users differ")
    _require(_SEGMENTS in with_segments.column_names, "the segments are missing")
    names = json.loads(with_segments.schema.metadata[_SEGMENT_NAMES])
    segments = rows_by_segment(with_segments[_SEGMENTS], names)
    return KeptLists(baseline=baseline, candidate=candidate, segments=segments)


def find_items(payload: bytes, user: str) -> tuple[str, ...] | None:
    """Return the items of the user's list, or None if the user is not in this piece."""
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


def _to_arrow(table: RankingTable, rows: slice) -> pa.Table:
    """Return these rows of the table as an Arrow table."""
    # A list begins at one offset and ends at the next one, so there is one more offset than lists.
    offsets = table.offsets[rows.start : rows.stop + 1]
    columns = {
        "user": user_column(table.users[rows]),
        "items": list_column(offsets, table.items),
    }
    if table.scores is not None:
        columns["scores"] = list_column(offsets, table.scores)
    return pa.table(columns)


def _encode(piece: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(piece, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def _open(payload: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(payload), page_checksum_verification=True)
