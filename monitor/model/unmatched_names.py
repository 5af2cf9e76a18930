"""Names in the configuration that nothing has: values, see `monitor.texts.unmatched_names`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedName:
    """A name that ``owner``, such as a rule or a route, waits for in vain. ``label``: what it names, such as a segment."""

    owner: str
    label: str
    name: str
    nearest: str | None = None  # the name that exists and looks most like it
    known: tuple[str, ...] = ()  # some of the names that exist
