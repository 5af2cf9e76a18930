"""A run's measurement where the lists are: what is shipped, and the bytes that come back, plain data that nothing runs."""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.errors import SourceError
from monitor.model.comparison import Comparison, Keep
from monitor.model.id_mismatches import IdKind, IdMismatch, MismatchKind
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
from monitor.model.runs import Evidence, EvidenceKind, KeptLists, Scores
from monitor.model.statistics import Statistic
from monitor.model.unreadable import Need, Unreadable
from monitor.pairing.pairs import DistinctIds, ListedItems
from monitor.pipeline.accumulator import RunAccumulator, RunPart
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.pull import Answers
from monitor.pipeline.score import draw_scores, join_scores
from monitor.summaries import FineBins, Moments, ScoreAccumulator, SummaryAccumulator

_VALUES = {
    each.__name__: each
    for each in (
        *(
            RunPart,
            SummaryAccumulator,
            ScoreAccumulator,
            Moments,
            FineBins,
            ListedItems,
            DistinctIds,
            Coverage,
            CoverageRow,
        ),
        *(
            Evidence,
            Scores,
            KeptLists,
            UserBatch,
            Panel,
            Pull,
            RankingTable,
            Statistic,
            IdMismatch,
            Unreadable,
        ),
    )
}
_ENUMS: dict[str, type[Enum]] = {
    each.__name__: each for each in (Arm, CoverageReason, EvidenceKind, IdKind, MismatchKind, Need)
}
# Numbers; of as many that mostly are zero, such as counts in bins, only the others are packed
_LARGE = 10_000
_FASTEST = 1  # of zlib: what compresses at all compresses well


def pack_part(part: RunPart) -> bytes:
    """The part as bytes."""
    arrays: list[bytes] = []
    head = json.dumps(_packed(part, arrays), separators=(",", ":")).encode()
    return zlib.compress(b"".join([len(head).to_bytes(8, "big"), head, *arrays]), _FASTEST)


def unpack_part(data: bytes) -> RunPart:
    """The part that these bytes hold. ValueError when they hold none."""
    try:
        whole = memoryview(zlib.decompress(data))
        start = 8 + int.from_bytes(whole[:8], "big")
        part = _Unpacking(whole[start:]).value(json.loads(bytes(whole[8:start])))
    except (zlib.error, LookupError, TypeError, AttributeError) as error:
        raise ValueError(type(error).__name__) from None
    if not isinstance(part, RunPart):
        raise ValueError(f"holds {type(part).__name__}")  # noqa: TRY004 - what is wrong is the data
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
        # No id holds a NUL.
        arrays.append("\0".join(value).encode())
        return {"texts": len(value), "bytes": len(arrays[-1]), "index": isinstance(value, pd.Index)}
    if isinstance(value, Mapping):
        return {
            "pairs": [[_packed(key, arrays), _packed(each, arrays)] for key, each in value.items()]
        }
    if isinstance(value, list):
        return [_packed(each, arrays) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_packed(each, arrays) for each in value]}
    held = (
        {each.name: getattr(value, each.name) for each in fields(value)}
        if is_dataclass(value)
        else vars(value)
    )
    return {
        "class": type(value).__name__,
        "held": {name: _packed(each, arrays) for name, each in held.items()},
    }


class _Unpacking:
    """Reads the arrays one behind the other, in the order in which they were packed."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays = arrays
        self._at = 0

    def value(self, packed: Any) -> Any:  # noqa: ANN401, PLR0911 - one line a type
        if isinstance(packed, list):
            return [self.value(each) for each in packed]
        if not isinstance(packed, dict):
            return packed
        if "enum" in packed:
            return _ENUMS[packed["enum"]](packed["value"])
        if "places" in packed:
            places, values = self.value(packed["places"]), self.value(packed["at"])
            whole = np.zeros(packed["size"], values.dtype)
            whole[places] = values
            return whole
        if "dtype" in packed:
            return self._numbers(np.dtype(packed["dtype"]), packed["shape"])
        if "texts" in packed:
            found = (
                bytes(self._take(packed["bytes"])).decode().split("\0") if packed["texts"] else []
            )
            return pd.Index(found, dtype="str") if packed["index"] else pd.array(found, dtype="str")
        if "pairs" in packed:
            return {self.value(key): self.value(each) for key, each in packed["pairs"]}
        if "tuple" in packed:
            return tuple(self.value(each) for each in packed["tuple"])
        made = object.__new__(_VALUES[packed["class"]])
        for name, each in packed["held"].items():
            object.__setattr__(made, name, self.value(each))
        return made

    def _numbers(self, dtype: np.dtype[Any], shape: list[int]) -> np.ndarray[Any, Any]:
        if dtype.kind not in "biuf":
            raise ValueError(f"holds an array of {dtype}")
        count = int(np.prod(shape, dtype=np.int64))
        # A copy, which may be written to.
        return np.frombuffer(self._take(count * dtype.itemsize), dtype).reshape(shape).copy()

    def _take(self, nbytes: int) -> memoryview:
        self._at += nbytes
        return self._arrays[self._at - nbytes : self._at]


class RemoteMeasurer:
    """Measures as `RunAccumulator` does and packs the result.

    Picklable. ``keep``: whose scores come back. Port: Measurer.
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
        self._weights, self._relevance = answers.weights, answers.relevance
        self._sampled_users = sampled_users
        self._keep = keep

    def measure(self, users: UserBatch) -> bytes:
        """What is found of some users."""
        users = users if self._pseudonyms is None else self._pseudonyms.hide_batch(users)
        return self._gathered(
            lambda found: found.add(
                replace(users, weights=self._weights, relevance=self._relevance)
            )
        )

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """What is found of the users of all of these parts together."""

        def take(found: RunAccumulator) -> None:
            for part in parts:
                found.merge(unpack_part(part), None, None)

        return self._gathered(take)

    def unpack(self, part: bytes) -> RunPart:
        """What came back. SourceError when it cannot be understood."""
        try:
            return unpack_part(part)
        except ValueError as error:
            msg = (
                f"the engine sent back what is no part of a run ({error}): run the same "
                "version of rankwatch everywhere"
            )
            raise SourceError(msg, permanent=False) from None

    def _gathered(self, take: Callable[[RunAccumulator], None]) -> bytes:
        scores: list[Scores] = []
        found = RunAccumulator(
            self._comparison, self._asked, sampled_users=self._sampled_users, gather=scores.append
        )
        take(found)
        return pack_part(found.part(draw_scores(join_scores(scores), self._keep, self._comparison)))
