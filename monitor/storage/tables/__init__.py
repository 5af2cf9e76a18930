"""Every table of the database, made to be read by people with SQL too. What creates them is in migrations."""

from monitor.storage.tables.alert_tables import alert_states, deliveries, notifications, silences, transitions
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import (
    arm_scores,
    coverage,
    coverage_reasons,
    daily,
    evidence,
    expectations,
    explanations,
    kept_lists,
    leases,
    lessons,
    runs,
    splits,
    stages,
    standstills,
    statistics,
    summaries,
)
from monitor.storage.tables.score_tables import PLACES, metrics, score_places, scores
