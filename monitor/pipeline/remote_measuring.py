"""A run's measurement where the lists are: what is shipped there, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from monitor.errors import SourceError
from monitor.model import Comparison, UserBatch
from monitor.pipeline.accumulator import RunAccumulator
from monitor.pipeline.pull import Answers
from monitor.pipeline.run_parts import RunPart, pack_part, unpack_part


class RemoteMeasuring:
    """Measures users as `RunAccumulator` does here, and packs what it found. Port: Measuring; can be pickled.

    ``keeps_all`` scores, or those that the comparison keeps.
    """

    def __init__(self, comparison: Comparison, answers: Answers, sampled_users: int, *, keeps_all: bool) -> None:
        self._comparison = comparison
        self._asked = answers.asked
        self._weights, self._relevance = answers.weights, answers.relevance
        self._sampled_users = sampled_users
        self._keeps_all = keeps_all

    def measure(self, users: UserBatch) -> bytes:
        """What is found of some users."""
        found = self._accumulator()
        found.add(replace(users, weights=self._weights, relevance=self._relevance))
        return self._pack(found)

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """What is found of the users of all of these parts together."""
        found = self._accumulator()
        for part in parts:
            found.merge(unpack_part(part), None, None)
        return self._pack(found)

    def unpack(self, part: bytes) -> RunPart:
        """What came back. SourceError when it cannot be understood."""
        try:
            return unpack_part(part)
        except ValueError as error:
            msg = f"the engine sent back what is no part of a run ({error}): run the same version of rankwatch everywhere"
            raise SourceError(msg, permanent=False) from None

    def _accumulator(self) -> RunAccumulator:
        return RunAccumulator(self._comparison, self._asked, sampled_users=self._sampled_users)

    def _pack(self, found: RunAccumulator) -> bytes:
        return pack_part(found.part(keeps_all=self._keeps_all))
