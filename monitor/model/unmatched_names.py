"""Names in the configuration that match nothing. See `monitor.texts.unmatched_names`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedName:
    """A name that ``owner``, such as a rule or a route, uses and that matches nothing."""

    owner: str
    name: str  # a segment that does not exist, or a matcher that no alert matches
    is_matcher: bool = False
    nearest: str | None = None  # the most similar name that exists
    known: tuple[str, ...] = ()  # some of the names that exist
