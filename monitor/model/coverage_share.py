"""CoverageShare: what a rule may ask of coverage, by a name that parses and prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from monitor.errors import ConfigError
from monitor.model.rankings import Arm, CoverageReason, CoverageRow

_NAME = re.compile(r"([a-z]+)(?:\(\s*([a-z]+)\s*\))?")


class Lack(StrEnum):
    """What users are counted for. ``short`` and ``duplicated`` lists are compared all the same."""

    MISSING = "missing"
    EMPTY = "empty"
    SHORT = "short"
    DUPLICATED = "duplicated"
    FAILED = "failed"
    UNPAIRED = "unpaired"


_BY_LACK = {
    Lack.MISSING: frozenset({CoverageReason.MISSING}),
    Lack.EMPTY: frozenset({CoverageReason.EMPTY}),
    Lack.SHORT: frozenset({CoverageReason.SHORT}),
    Lack.DUPLICATED: frozenset({CoverageReason.DUPLICATED}),
}
_REASONS = {**_BY_LACK, Lack.FAILED: frozenset(CoverageReason).difference(*_BY_LACK.values())}


@dataclass(frozen=True, slots=True)
class CoverageShare:
    """The share of the users asked for whom ``arm`` lacks something, from 0 to 1; ``unpaired`` speaks of no arm.

    ``failed`` counts every reason that is a failure to answer: timeout, errors, answers that cannot be read.
    """

    lack: Lack
    arm: Arm | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``missing(candidate)``, ``missing`` (of the candidate) or ``unpaired``; ConfigError when it is none."""
        match = _NAME.fullmatch(text.strip())
        try:
            lack = Lack(match[1]) if match else None
            arm = Arm(match[2]) if match and match[2] else None
        except ValueError:
            lack = None
        if match is None or lack is None or (lack is Lack.UNPAIRED and arm is not None):
            kinds = ", ".join(lack for lack in Lack if lack is not Lack.UNPAIRED)
            msg = f"unknown share {text!r}: use unpaired, or one of {kinds}, with an arm behind it such as missing(baseline)"
            raise ConfigError(msg)
        return cls(lack, None if lack is Lack.UNPAIRED else arm or Arm.CANDIDATE)

    def __str__(self) -> str:
        return self.lack if self.arm is None else f"{self.lack}({self.arm})"

    def count(self, row: CoverageRow) -> int:
        """How many users of the row are counted."""
        if self.lack is Lack.UNPAIRED:
            return row.asked - row.paired
        reasons = _REASONS[self.lack]
        return sum(users for (arm, reason), users in row.reasons.items() if arm == self.arm and reason in reasons)
