"""Measures a run on the machines that have the lists, and returns the result as bytes.

The bytes are plain data. Reading them never runs code.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.errors import SourceError
from monitor.model.rankings import (
    Arm,
    Coverage,
    CoverageReason,
    CoverageRow,
    Panel,
    Pull,
    RankingTable,
    UserBatch,
)
from monitor.model.rules import Comparison, Keep
from monitor.model.run_reasons import IdKind, IdMismatch, MismatchKind
from monitor.model.runs import Evidence, EvidenceKind, KeptLists, Scores
from monitor.model.statistics import Statistic
from monitor.model.unreadable import Need, Unreadable
from monitor.pairing.pairs import DistinctIds, ListedItems
from monitor.pipeline.accumulator import RunAccumulator, RunPart
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.pull import Answers
from monitor.pipeline.score import draw_scores, join_scores
from monitor.summaries import FineBins, Moments, ScoreAccumulator, SummaryAccumulator

_VALUES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Coverage,
        CoverageRow,
        DistinctIds,
        Evidence,
        FineBins,
        IdMismatch,
        KeptLists,
        ListedItems,
        Moments,
        Panel,
        Pull,
        RankingTable,
        RunPart,
        ScoreAccumulator,
        Scores,
        Statistic,
        SummaryAccumulator,
        Unreadable,
        UserBatch,
    )
}
_ENUMS: dict[str, type[Enum]] = {
    kind.__name__: kind for kind in (Arm, CoverageReason, EvidenceKind, IdKind, MismatchKind, Need)
}
# If an array of at least this size is mostly zero, only its other values are packed.
_LARGE = 10_000
_FASTEST = 1  # level of zlib. Higher levels hardly compress the data better


def pack_part(part: RunPart) -> bytes:
    """Pack the part into bytes."""
    arrays: list[bytes] = []
    head = json.dumps(_packed(part, arrays), separators=(",", ":")).encode()
    head_length = len(head).to_bytes(8, "big")
    return zlib.compress(b"".join([head_length, head, *arrays]), _FASTEST)


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


def _packed(value: Any, arrays: list[bytes]) -> Any:  # noqa: ANN401, PLR0911 - a few lines a type
    if isinstance(value, Enum):
        return {"enum": type(value).__name__, "value": value.value}
    if value is None or isinstance(value, int | float | str):
        return value
    if isinstance(value, np.ndarray):
        if value.size >= _LARGE and 4 * np.count_nonzero(value) < value.size:
            places = np.flatnonzero(value)
            return {
                "size": value.size,
                "places": _packed(places, arrays),
                "at": _packed(value[places], arrays),
            }
        arrays.append(np.ascontiguousarray(value).tobytes())
        return {"dtype": value.dtype.str, "shape": value.shape}
    if isinstance(value, pd.Index | ExtensionArray):
        # An id never contains a NUL, so NUL can separate ids.
        arrays.append("\0".join(value).encode())
        return {"texts": len(value), "bytes": len(arrays[-1]), "index": isinstance(value, pd.Index)}
    if isinstance(value, Mapping):
        return {
            "pairs": [[_packed(key, arrays), _packed(item, arrays)] for key, item in value.items()]
        }
    if isinstance(value, list):
        return [_packed(item, arrays) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_packed(item, arrays) for item in value]}
    if is_dataclass(value):
        names: Iterable[str] = [field.name for field in fields(value)]
    else:
        names = vars(value)
    attributes = {name: _packed(getattr(value, name), arrays) for name in names}
    return {"class": type(value).__name__, "attributes": attributes}


class _Unpacking:
    """Unpacks values. Reads the arrays in the order in which they were packed."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays = arrays
        self._at = 0

    def value(self, packed: Any) -> Any:  # noqa: ANN401, PLR0911 - one line a type
        if isinstance(packed, list):
            return [self.value(item) for item in packed]
        if not isinstance(packed, dict):
            return packed
        if "enum" in packed:
            return _ENUMS[packed["enum"]](packed["value"])
        if "places" in packed:
            places = self.value(packed["places"])
            values = self.value(packed["at"])
            numbers = np.zeros(packed["size"], values.dtype)
            numbers[places] = values
            return numbers
        if "dtype" in packed:
            return self._numbers(np.dtype(packed["dtype"]), packed["shape"])
        if "texts" in packed:
            joined = bytes(self._take(packed["bytes"])).decode()
            ids = joined.split("\0") if packed["texts"] else []
            return pd.Index(ids, dtype="str") if packed["index"] else pd.array(ids, dtype="str")
        if "pairs" in packed:
            return {self.value(key): self.value(item) for key, item in packed["pairs"]}
        if "tuple" in packed:
            return tuple(self.value(item) for item in packed["tuple"])
        instance: Any = object.__new__(_VALUES[packed["class"]])
        for name, item in packed["attributes"].items():
            object.__setattr__(instance, name, self.value(item))
        return instance

    def _numbers(self, dtype: np.dtype[Any], shape: list[int]) -> np.ndarray[Any, Any]:
        if dtype.kind not in "biuf":
            raise ValueError(f"holds an array of {dtype}")
        count = int(np.prod(shape, dtype=np.int64))
        # The buffer is read-only, so the array is copied.
        content = self._take(count * dtype.itemsize)
        return np.frombuffer(content, dtype).reshape(shape).copy()

    def _take(self, nbytes: int) -> memoryview:
        self._at += nbytes
        return self._arrays[self._at - nbytes : self._at]


class RemoteMeasurer:
    """Measures users with a `RunAccumulator`, and packs the result. Picklable. Port: Measurer.

    ``keep`` says which users' scores are returned.
    """

    def __init__(
        self,
        comparison: Comparison,
        answers: Answers,
        sampled_users: int,
        keep: Keep | int,
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        self._comparison = comparison
        self._pseudonyms = pseudonyms
        self._asked = answers.asked
        self._weights = answers.weights
        self._relevance = answers.relevance
        self._sampled_users = sampled_users
        self._keep = keep

    def measure(self, users: UserBatch) -> bytes:
        """Measure these users. Returns the packed result."""
        if self._pseudonyms is not None:
            users = self._pseudonyms.hide_batch(users)
        accumulator, scores = self._new_accumulator()
        accumulator.add(replace(users, weights=self._weights, relevance=self._relevance))
        return self._pack(accumulator, scores)

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """Merge packed measurements into one."""
        accumulator, scores = self._new_accumulator()
        for part in parts:
            accumulator.merge(unpack_part(part), None, None)
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

    def _new_accumulator(self) -> tuple[RunAccumulator, list[Scores]]:
        """An empty accumulator, and the list that it adds scores to."""
        scores: list[Scores] = []
        accumulator = RunAccumulator(
            self._comparison,
            self._asked,
            sampled_users=self._sampled_users,
            gather=scores.append,
        )
        return accumulator, scores

    def _pack(self, accumulator: RunAccumulator, scores: Sequence[Scores]) -> bytes:
        drawn = draw_scores(join_scores(scores), self._keep, self._comparison)
        return pack_part(accumulator.part(drawn))
