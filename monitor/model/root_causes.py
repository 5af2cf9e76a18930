"""Why no run succeeds. `monitor.texts.root_causes` writes the sentences."""

from monitor.immutable import immutable


@immutable
class RootCause:
    """Causes in the time in which no run succeeded."""

    # How long rankwatch's own database was away; 0 where that explains nothing
    database_away_s: float = 0.0
    run_failure: str | None = None  # why the newest run since then failed
