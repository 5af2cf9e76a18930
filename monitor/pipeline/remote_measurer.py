"""A run's measurement where the lists are: what is shipped there, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from monitor.errors import SourceError
from monitor.model import Comparison, Keep, Scores, UserBatch
from monitor.pipeline.accumulator import RunAccumulator
from monitor.pipeline.pull import Answers
from monitor.pipeline.run_parts import RunPart, pack_part, unpack_part
from monitor.pipeline.run_scores import draw_scores, join_scores


class RemoteMeasurer:
    """Measures users as `RunAccumulator` does here, and packs what it found. Port: Measurer; can be pickled.

    ``keep``: whose scores are to come back.
    """

    def __init__(self, comparison: Comparison, answers: Answers, sampled_users: int, keep: Keep | int) -> None:
        self._comparison = comparison
        self._asked = answers.asked
        self._weights, self._relevance = answers.weights, answers.relevance
        self._sampled_users = sampled_users
        self._keep = keep

    def measure(self, users: UserBatch) -> bytes:
        """What is found of some users."""
        return self._gathered(lambda found: found.add(replace(users, weights=self._weights, relevance=self._relevance)))

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
            msg = f"the engine sent back what is no part of a run ({error}): run the same version of rankwatch everywhere"
            raise SourceError(msg, permanent=False) from None

    def _gathered(self, take: Callable[[RunAccumulator], None]) -> bytes:
        scores: list[Scores] = []
        found = RunAccumulator(self._comparison, self._asked, sampled_users=self._sampled_users, gather=scores.append)
        take(found)
        return pack_part(found.part(draw_scores(join_scores(scores), self._keep, self._comparison)))
