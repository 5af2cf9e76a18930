"""Measures a run on the machines that have the lists, and returns the result as bytes.

The bytes are plain data. Reading them never runs code.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.measures.pairing.id_mismatches import IdComparison
from monitor.measures.pairing.pairs import DistinctIds, ListedItems
from monitor.measures.summaries import FineBins, ScoreSums, SummaryAccumulator
from monitor.model.errors import SourceError
from monitor.model.rankings import (
    Arm,
    AskedUsers,
    Coverage,
    CoverageReason,
    CoverageRow,
    ItemWeights,
    Panel,
    Pull,
    RankingTable,
    RelevanceTable,
    UserBatch,
)
from monitor.model.rules import Comparison, Keep
from monitor.model.run_reasons import IdKind, IdMismatch, MismatchKind
from monitor.model.runs import Evidence, EvidenceKind, KeptLists, Scores
from monitor.model.statistics import Statistic
from monitor.model.unreadable import Need, Unreadable
from monitor.pipeline.accumulator import RunAccumulator, RunPart
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.run_scores import draw_scores, join_scores

_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Arm,
        Coverage,
        CoverageReason,
        CoverageRow,
        DistinctIds,
        Evidence,
        EvidenceKind,
        FineBins,
        IdComparison,
        IdKind,
        IdMismatch,
        KeptLists,
        ListedItems,
        MismatchKind,
        Need,
        Panel,
        Pull,
        RankingTable,
        RunPart,
        ScoreSums,
        Scores,
        Statistic,
        SummaryAccumulator,
        Unreadable,
        UserBatch,
    )
}
"""The dataclasses and enums that a part may contain."""
_FASTEST = 1  # level of zlib. Higher levels hardly compress the data better


def pack_part(part: RunPart) -> bytes:
    """Pack the part into bytes."""
    arrays: list[bytes] = []
    head = json.dumps(_packed(part, arrays), separators=(",", ":")).encode()
    return zlib.compress(b"".join([len(head).to_bytes(8, "big"), head, *arrays]), _FASTEST)


def unpack_part(data: bytes) -> RunPart:
    """Read a part from bytes. Raises ValueError if the bytes are not a part."""
    try:
        content = memoryview(zlib.decompress(data))
        start = 8 + int.from_bytes(content[:8], "big")
        part = _Unpacking(content[start:]).value(json.loads(bytes(content[8:start])))
    except (zlib.error, LookupError, TypeError, AttributeError) as error:
        raise ValueError(type(error).__name__) from None
    if not isinstance(part, RunPart):
        raise ValueError(f"holds {type(part).__name__}")  # noqa: TRY004 - the data is wrong
    return part


def _packed(value: Any, arrays: list[bytes]) -> Any:  # noqa: ANN401, PLR0911 - a line for each type
    if isinstance(value, Enum):
        return {"kind": type(value).__name__, "of": value.value}
    if value is None or isinstance(value, int | float | str):
        return value
    if isinstance(value, np.ndarray):
        arrays.append(np.ascontiguousarray(value).tobytes())
        return {"dtype": value.dtype.str, "shape": value.shape}
    if isinstance(value, pd.Index | ExtensionArray):
        # An id never contains a NUL, so NUL can separate ids.
        arrays.append("\0".join(value).encode())
        return {"texts": len(value), "bytes": len(arrays[-1]), "index": isinstance(value, pd.Index)}
    if isinstance(value, Mapping):
        return {"pairs": _packed(list(value.items()), arrays)}
    if isinstance(value, list):
        return [_packed(item, arrays) for item in value]
    if isinstance(value, tuple):
        return {"tuple": _packed(list(value), arrays)}
    attributes = {field.name: getattr(value, field.name) for field in fields(value)}
    return {"kind": type(value).__name__, "with": _packed(attributes, arrays)}


class _Unpacking:
    """Unpacks values. Reads the arrays in the order in which they were packed."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays = arrays
        self._at = 0

    def value(self, packed: Any) -> Any:  # noqa: ANN401, PLR0911 - as above
        if isinstance(packed, list):
            return [self.value(item) for item in packed]
        if not isinstance(packed, dict):
            return packed
        if "of" in packed:
            return _KINDS[packed["kind"]](packed["of"])
        if "with" in packed:
            return _KINDS[packed["kind"]](**self.value(packed["with"]))
        if "pairs" in packed:
            return dict(self.value(packed["pairs"]))
        if "tuple" in packed:
            return tuple(self.value(packed["tuple"]))
        if "texts" in packed:
            joined = bytes(self._take(packed["bytes"])).decode()
            ids = joined.split("\0") if packed["texts"] else []
            return pd.Index(ids, dtype="str") if packed["index"] else pd.array(ids, dtype="str")
        dtype = np.dtype(packed["dtype"])
        if dtype.kind not in "biuf":
            raise ValueError(f"holds an array of {dtype}")
        count = int(np.prod(packed["shape"], dtype=np.int64))
        content = self._take(count * dtype.itemsize)
        # The buffer is read-only, so the array is copied.
        return np.frombuffer(content, dtype).reshape(packed["shape"]).copy()

    def _take(self, nbytes: int) -> memoryview:
        self._at += nbytes
        return self._arrays[self._at - nbytes : self._at]


@dataclass(frozen=True, kw_only=True)
class RemoteMeasurer:
    """Measures users with a `RunAccumulator`, and packs the result. Picklable. Port: Measurer.

    ``keep`` says which users' scores are returned.
    """

    comparison: Comparison
    asked: AskedUsers
    weights: ItemWeights | None
    relevance: RelevanceTable | None
    sampled_users: int
    keep: Keep | int
    pseudonyms: Pseudonyms | None

    def measure(self, users: UserBatch) -> bytes:
        """Measure these users. Returns the packed result."""
        if self.pseudonyms is not None:
            users = self.pseudonyms.hide_batch(users)
        accumulator = self._new_accumulator()
        scores = accumulator.add(replace(users, weights=self.weights, relevance=self.relevance))
        return self._pack(accumulator, [scores])

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """Merge packed measurements into one."""
        accumulator = self._new_accumulator()
        scores: list[Scores] = []
        for packed in parts:
            part = unpack_part(packed)
            accumulator.merge(part)
            scores += part.scores
        return self._pack(accumulator, scores)

    def unpack(self, part: bytes) -> RunPart:
        """Unpack a measurement. Raises SourceError if it cannot be read."""
        try:
            return unpack_part(part)
        except ValueError as error:
            msg = (
                f"the engine returned bytes that cannot be read as part of a run ({error}): "
                "install the same version of rankwatch on all machines"
            )
            raise SourceError(msg, permanent=False) from None

    def _new_accumulator(self) -> RunAccumulator:
        return RunAccumulator(self.comparison, self.asked, sampled_users=self.sampled_users)

    def _pack(self, accumulator: RunAccumulator, scores: list[Scores]) -> bytes:
        drawn = draw_scores(join_scores(scores), self.keep, self.comparison)
        return pack_part(accumulator.part(drawn))
