"""Every series that rankwatch shows, in one table. The collectors and the README's reference are built from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.errors import DatabaseTrouble, DeliveryTrouble
from monitor.model import CoverageReason, DataKind

PREFIX = "rankwatch_"
SKIP_REASONS = ("missed", "overlap")
"""Why a slot did not run: no daemon was there, or the last run had not ended."""
SEND_OUTCOMES = ("sent", "retry", "dead", "dropped")
"""What comes of one attempt to deliver."""
PING_OUTCOMES = ("sent", "failed", "dropped")
"""What became of a dead-man ping: taken, given up, or pushed out by newer ones."""
COLLECTORS = ("results", "daemon", "process", "platform", "gc")
"""What a page is put together from, each by itself: one that fails takes none of the others with it."""
WATCHED_PARTS = ("run", "scheduler", "delivery", "housekeeping")
"""What the watchdog begins anew when it hangs."""


class Kind(StrEnum):
    """Type of a series in Prometheus' words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE_HISTOGRAM = "gaugehistogram"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric family; ``name`` as it is scraped, counters with ``_total``. ``buckets`` are a histogram's upper bounds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()


def _series(kind: Kind, name: str, labels: str, text: str, buckets: tuple[float, ...] = ()) -> Series:
    stem = name.removesuffix("_total")
    unit = next((unit for unit in ("seconds", "ratio", "bytes") if stem.endswith(f"_{unit}")), "")
    return Series(name=f"{PREFIX}{name}", kind=kind, help=text, labels=tuple(labels.split()), unit=unit, buckets=buckets)


_G, _C, _H, _D, _I = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM, Kind.GAUGE_HISTOGRAM, Kind.INFO
_SIMILARITY = "comparison segment metric"
_ALERT = "comparison alert segment severity"
_RUN_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_LAG_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_STAGE_S = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0)

_TABLE = (
    _series(
        _I,
        "build_info",
        "version revision python_version",
        "Always 1; the labels name the version of rankwatch, the commit it was built from, and the Python it runs on.",
    ),
    # What the newest finished run measured. Absent unless that run is ok.
    _series(_G, "similarity_mean", _SIMILARITY, "Mean similarity of baseline and candidate over the users compared."),
    _series(_G, "similarity_standard_error", _SIMILARITY, "Standard error of the mean similarity."),
    _series(_G, "similarity_quantile", f"{_SIMILARITY} q", "Quantile q of the users' similarity."),
    _series(
        _G,
        "similarity_share_below_ratio",
        f"{_SIMILARITY} floor",
        "Share of users, from 0 to 1, whose similarity is strictly below the floor.",
    ),
    _series(_G, "similarity_users", _SIMILARITY, "Users behind the similarity: those with a defined score."),
    _series(
        _D,
        "similarity_distribution",
        "comparison metric",
        "Users of segment all by similarity, in buckets up to `le`; `_gsum` and `_gcount` give the mean.",
    ),
    _series(_G, "similarity_undefined_users", _SIMILARITY, "Users compared whose score is undefined."),
    _series(
        _G,
        "similarity_by_chance",
        "comparison metric",
        "Similarity to expect of two random lists of k items from the catalogue. Absent where it is not known.",
    ),
    _series(_G, "noise_floor_mean", _SIMILARITY, "Mean similarity of the baseline to itself (noise floor)."),
    _series(_G, "noise_floor_users", _SIMILARITY, "Users with a candidate list and two baseline lists."),
    _series(
        _G,
        "over_floor_mean",
        _SIMILARITY,
        "Mean over noise_floor_users: how much farther the candidate is from the baseline than that from itself.",
    ),
    _series(_G, "over_floor_standard_error", _SIMILARITY, "Standard error of over_floor_mean, users being paired."),
    _series(
        _G,
        "arm_metric",
        "comparison segment arm metric",
        "Value of a metric of one arm as a whole, such as its coverage of the catalogue. Absent where it is undefined.",
    ),
    _series(
        _G, "unlabelled_runs", "comparison", "Ok runs whose measures of relevance are missing because labels have not arrived."
    ),
    # How much of the panel the newest finished run could compare. Absent when the run failed before it knew.
    _series(_G, "panel_users", "comparison segment", "Users asked for by the newest finished run."),
    _series(_G, "paired_users", "comparison segment", "Users whose two lists could be compared."),
    _series(
        _G,
        "coverage_users",
        "comparison segment arm reason",
        "Users whose list was absent or imperfect. Segment all has every reason; other segments only reasons that occurred.",
    ),
    # Where alerts stand.
    _series(_G, "alert_state", _ALERT, "0 quiet, 1 pending, 2 firing."),
    _series(
        _G,
        "alert_judged",
        _ALERT,
        "1 when the newest finished run could judge the rule; 0 on no data, too few users, an error or a run that is not ok.",
    ),
    _series(_G, "alert_value", _ALERT, "Value the rule last judged. Absent unless the newest finished run is ok."),
    _series(_G, "alert_users", _ALERT, "Users behind the value the rule last judged. Absent together with it."),
    _series(_G, "alert_threshold", _ALERT, "Threshold beyond which the rule is in breach."),
    _series(
        _G,
        "alert_expected",
        _ALERT,
        "Value that a rule that learns expected of the newest finished run. Absent while it learns.",
    ),
    _series(
        _G,
        "alert_normal_lower",
        _ALERT,
        "Lower end of what a rule that learns held for normal in the newest finished run. Absent while it learns.",
    ),
    _series(_G, "alert_normal_upper", _ALERT, "Upper end of the same."),
    # Runs.
    _series(
        _G,
        "run_status",
        "comparison status",
        "1 for the status of the newest finished run, 0 for the others; all 0 before the first.",
    ),
    _series(_G, "run_last_slot_timestamp_seconds", "comparison", "Slot of the newest finished run."),
    _series(_G, "run_last_finished_timestamp_seconds", "comparison", "When the newest finished run ended."),
    _series(_G, "run_last_ok_timestamp_seconds", "comparison", "When a run last ended ok. Absent until one has."),
    _series(
        _G,
        "comparison_since_timestamp_seconds",
        "comparison",
        "Since when there is the comparison: slot of its oldest stored run; without one, when this process first read of it.",
    ),
    _series(
        _G,
        "stale_after_seconds",
        "comparison",
        "How long no run may end ok before `Stale` fires where it is not ignored: `conditions.stale.after` runs, one deadline.",
    ),
    _series(
        _G,
        "schedule_interval_seconds",
        "comparison",
        "Longest time between two slots of the schedule. Absent where the schedule does not say.",
    ),
    _series(_C, "runs_total", "comparison status", "Runs ended by this process, or found abandoned by it."),
    _series(
        _C,
        "slots_skipped_total",
        "comparison reason",
        "Slots that did not run: missed (no daemon was there) or overlap (the last run had not ended).",
    ),
    _series(_H, "run_duration_seconds", "comparison", "Time from claim to end of a run.", _RUN_S),
    _series(_H, "stage_duration_seconds", "comparison stage", "Time spent in each stage of a run.", _STAGE_S),
    _series(_H, "schedule_lag_seconds", "comparison", "Time from a slot to the start of its run.", _LAG_S),
    _series(_H, "pull_duration_seconds", "comparison arm", "Time an arm took to answer for all users of a run.", _STAGE_S),
    _series(
        _H,
        "arm_gap_seconds",
        "comparison",
        "Time between the ends of the two arms' answers: their lists may be as far apart in time.",
        _STAGE_S,
    ),
    _series(
        _C,
        "source_errors_total",
        "comparison arm reason",
        f"Users whose list could not be had or was imperfect: {', '.join(f'`{reason}`' for reason in CoverageReason)}.",
    ),
    # Leading.
    _series(_G, "leader", "", "1 while this daemon is sure to lead, 0 while it stands by or cannot be sure."),
    _series(_G, "lease_epoch", "", "Epoch of the leader's lease, as this daemon last saw it; grows at each takeover."),
    # Delivery and configuration.
    _series(
        _C,
        "notifications_total",
        "receiver outcome",
        "Deliveries: sent, retry (will be tried again), dead (given up for good) or dropped (need not be sent any more).",
    ),
    _series(
        _C,
        "delivery_errors_total",
        "receiver reason",
        f"Attempts to deliver that failed: {', '.join(f'`{trouble}`' for trouble in DeliveryTrouble)}.",
    ),
    _series(
        _C,
        "pings_total",
        "ping outcome",
        "Dead-man pings: sent, failed (given up) or dropped (pushed out by newer ones).",
    ),
    _series(_G, "outbox_pending", "receiver", "Deliveries waiting to be sent."),
    _series(
        _G, "outbox_held", "receiver", "Deliveries held back: silenced, in maintenance, muted, or inhibited by another alert."
    ),
    _series(_G, "outbox_given_up", "receiver", "Deliveries that were given up for good within the last hour."),
    _series(_G, "outbox_oldest_age_seconds", "receiver", "Age of the oldest delivery waiting; 0 when none waits."),
    _series(_G, "database_up", "", "1 while the database can be read and written, else 0."),
    _series(
        _C,
        "database_errors_total",
        "reason",
        f"Errors of the database: {', '.join(f'`{trouble}`' for trouble in DatabaseTrouble)}.",
    ),
    _series(
        _G,
        "database_size_bytes",
        "kind",
        "Bytes on disk that each kind of data takes, looked up every hour: "
        f"{', '.join(f'`{kind}`' for kind in DataKind)}. Shown by the daemon that leads.",
    ),
    _series(
        _C,
        "pruned_rows_total",
        "kind",
        "Old rows that were deleted. On PostgreSQL, where scores are deleted by partition, about how many.",
    ),
    _series(_G, "prune_last_success_timestamp_seconds", "", "When old rows were last deleted. Absent until they first were."),
    _series(_C, "clock_jumps_total", "", "Jumps of the wall clock by more than 5 s, a machine's sleep among them."),
    _series(
        _C,
        "watchdog_restarts_total",
        "part",
        f"What hung and was begun anew: {', '.join(f'`{part}`' for part in WATCHED_PARTS)}.",
    ),
    _series(
        _G,
        "series_cut",
        "comparison",
        "Series of segments that this page leaves out because of `max_series`.",
    ),
    _series(
        _C,
        "collector_errors_total",
        "collector",
        f"Parts of this page that could not be made: {', '.join(f'`{name}`' for name in COLLECTORS)}.",
    ),
    _series(_G, "config_last_reload_successful", "", "1 when the configuration file last read is the one in force, else 0."),
    _series(_G, "config_last_reload_success_timestamp_seconds", "", "When a configuration was last put in force."),
)

SERIES: dict[str, Series] = {series.name.removeprefix(PREFIX): series for series in _TABLE}
"""The table by name without prefix."""


def series_reference() -> str:
    """The table as Markdown, one line a series, for the README."""
    head = "| series | type | labels | meaning |\n|---|---|---|---|\n"
    return head + "".join(
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.help} |\n" for one in _TABLE
    )
