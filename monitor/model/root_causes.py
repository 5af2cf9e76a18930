"""Why no run succeeds: values, see `monitor.texts.root_causes`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCause:
    """What is known of the time in which no run succeeded."""

    database_away_s: float = (
        0.0  # how long rankwatch's own database was away; 0 where that explains nothing
    )
    run_failure: str | None = None  # why the newest run since then failed
