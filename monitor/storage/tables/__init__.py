"""Every table of the database, made to be read by people with SQL too. What creates them is in migrations."""

from monitor.storage.tables.alert_tables import alert_states, deliveries, notifications, silences, transitions
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import (
    PLACES,
    arm_scores,
    coverage,
    coverage_reasons,
    evidence,
    expectations,
    explanations,
    kept_lists,
    leases,
    lessons,
    metrics,
    runs,
    score_places,
    scores,
    splits,
    stages,
    standstills,
    statistics,
    summaries,
)
