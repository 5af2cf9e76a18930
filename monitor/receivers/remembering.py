"""Which of several addressees have a message already, while others wait for it; in memory, for the newest messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_REMEMBERED = 256


class Reached:
    """Addressees by message. Not for several threads."""

    def __init__(self) -> None:
        self._reached: dict[str, set[str]] = {}

    def add(self, key: str, addressees: Iterable[str]) -> None:
        """These have the message; of many messages the oldest is forgotten."""
        self._reached.setdefault(key, set()).update(addressees)
        while len(self._reached) > _REMEMBERED:
            del self._reached[next(iter(self._reached))]

    def without(self, key: str, addressees: Sequence[str]) -> tuple[str, ...]:
        """Those who do not have it yet; all of them once everybody has it, for then it is sent anew."""
        reached = self._reached.get(key, set())
        return tuple(each for each in addressees if each not in reached) or tuple(addressees)
