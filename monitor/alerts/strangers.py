"""What a rule says of a segment that none of the users asked belongs to: a name mistyped, or a value that has vanished."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.alerts.verdicts import silent
from monitor.model import CoverageRow, Outcome, Verdict

_NAMED = 3
_REST = "other"


def judge_stranger(segment: str, rows: Iterable[CoverageRow]) -> Verdict:
    """``no_data``, with the largest segments of the same dimension, or that there is no such dimension."""
    dimension = segment.partition("=")[0]
    kin = sorted((row for row in rows if row.segment.startswith(f"{dimension}=")), key=lambda row: (-row.asked, row.segment))
    told = f"no user of the panel belongs to {segment}"
    if any(row.segment == f"{dimension}={_REST}" for row in kin):
        told += f", unless as one of the rare ones in {dimension}={_REST}"
    return silent(Outcome.NO_DATA, f"{told}; {_tell_kin(dimension, [row.segment for row in kin])}")


def _tell_kin(dimension: str, names: list[str]) -> str:
    if not names:
        return f"the panel has no segments by {dimension}"
    rest = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"there is {', '.join(names[:_NAMED])}{rest}"
