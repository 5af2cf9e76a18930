"""What a person reads about a name that nothing has."""

from monitor.model.unmatched_names import UnmatchedName

_SHOWN = 5


def write_unmatched(unmatched: UnmatchedName) -> str:
    """``nothing matches rule Low: there is no segment country=no.

    Did you mean country=NO?`` without a full stop.
    """
    lack = "no alert has" if unmatched.is_matcher else "there is no segment"
    found = f"nothing matches {unmatched.owner}: {lack} {unmatched.name}"
    if unmatched.nearest is not None:
        return f"{found}. Did you mean {unmatched.nearest}?"
    if not unmatched.known:
        return found
    rest = len(unmatched.known) - _SHOWN
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"{found}. There is {', '.join(unmatched.known[:_SHOWN])}{more}"
