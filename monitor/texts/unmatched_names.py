"""Texts about a name that nothing has."""

from monitor.model.unmatched_names import UnmatchedName

_SHOWN = 5


def write_unmatched(unmatched: UnmatchedName) -> str:
    """``nothing matches rule Low: there is no segment country=no``, with the nearest names.

    Without a full stop.
    """
    lack = "no alert has" if unmatched.is_matcher else "there is no segment"
    problem = f"nothing matches {unmatched.owner}: {lack} {unmatched.name}"
    if unmatched.nearest is not None:
        return f"{problem}. Did you mean {unmatched.nearest}?"
    if not unmatched.known:
        return problem
    rest = len(unmatched.known) - _SHOWN
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"{problem}. There is {', '.join(unmatched.known[:_SHOWN])}{more}"
