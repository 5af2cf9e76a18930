"""Why no run succeeds. `monitor.texts.root_causes` writes the sentences."""

from monitor.model.immutable import immutable


@immutable
class RootCause:
    """Why no run succeeded for some time."""

    # How long rankwatch's own database was away; 0 if that is not the cause
    database_away_s: float = 0.0
    run_failure: str | None = None  # why the newest run in that time failed
