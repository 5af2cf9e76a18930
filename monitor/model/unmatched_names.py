"""Names in the configuration that nothing has: values, see `monitor.texts.unmatched_names`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedName:
    """A name that ``owner``, such as a rule or a route, waits for in vain."""

    owner: str
    name: str  # a segment, or a matcher that no alert matches
    is_matcher: bool = False
    nearest: str | None = None  # the name that exists and looks most like it
    known: tuple[str, ...] = ()  # some of the names that exist
