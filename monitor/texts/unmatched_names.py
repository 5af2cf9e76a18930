"""Writes that a name does not exist."""

from monitor.model.run_reasons import UnmatchedName

_SHOWN = 5


def write_unmatched(unmatched: UnmatchedName) -> str:
    """Write a clause such as ``nothing matches rule Low: there is no segment country=no``.

    Then the most similar name follows, or the names that exist. There is no full stop.
    """
    lack = "no alert has" if unmatched.is_matcher else "there is no segment"
    problem = f"nothing matches {unmatched.owner}: {lack} {unmatched.name}"
    return problem + _write_existing(unmatched)


def write_absent_segment(unmatched: UnmatchedName) -> str:
    """Say why a rule cannot judge the segment with this name."""
    return f"no user of the panel belongs to {unmatched.name}{_write_existing(unmatched)}"


def _write_existing(unmatched: UnmatchedName) -> str:
    if unmatched.nearest is not None:
        return f". Did you mean {unmatched.nearest}?"
    if not unmatched.known:
        return ""
    rest = len(unmatched.known) - _SHOWN
    more = f" and {rest:,} more" if rest > 0 else ""
    return f". Existing names: {', '.join(unmatched.known[:_SHOWN])}{more}"
