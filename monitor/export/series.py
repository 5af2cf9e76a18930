"""Every series that rankwatch shows, in one table.

The collectors and the README's reference are built from it.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial

from monitor.errors import DatabaseTrouble, DeliveryTrouble
from monitor.immutable import immutable
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.retention import DataKind
from monitor.model.runs import RunStatus

PREFIX = "rankwatch_"
COLLECTORS = ("results", "daemon", "process", "platform", "gc")
"""The parts of a page. A page leaves out a part that fails, and shows the others."""
FINISHED = tuple(status for status in RunStatus if status is not RunStatus.RUNNING)
"""Statuses of a finished run."""
OWNERS = ("comparison", "receiver", "ping")
"""First labels whose values are names in the configuration."""


class Kind(StrEnum):
    """Type of a series in Prometheus' words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE_HISTOGRAM = "gaugehistogram"
    INFO = "info"


@immutable
class Series:
    """One metric family."""

    name: str  # as it is scraped, counters with ``_total``
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds of a histogram
    values: tuple[Iterable[str], ...] = ()
    """All values of each label after the `owner`. With them a counter can be shown from 0."""

    @property
    def owner(self) -> str | None:
        """The first label, if it is one of `OWNERS`."""
        if self.labels and self.labels[0] in OWNERS:
            return self.labels[0]
        return None

    @property
    def starts_at_zero(self) -> bool:
        """Whether it is shown before the first count, so that Prometheus sees the first rise."""
        return bool(self.labels) and len(self.labels) == len(self.values) + (self.owner is not None)

    @property
    def unit(self) -> str:
        """The unit at the end of the name, or an empty string."""
        stem = self.name.removesuffix("_total")
        for unit in ("seconds", "ratio", "bytes"):
            if stem.endswith(f"_{unit}"):
                return unit
        return ""


def _series(
    kind: Kind,
    labels: str,
    meaning: str,
    buckets: tuple[float, ...] = (),
    values: tuple[Iterable[str], ...] = (),
) -> Callable[..., Series]:
    """Return a series without its name.

    ``{}`` in the meaning is replaced by the values of the last label.
    """
    last_values: Iterable[str] = ()
    if values:
        last_values = values[-1]
    listed = ", ".join(f"`{value}`" for value in last_values)
    return partial(
        Series,
        kind=kind,
        help=meaning.format(listed),
        labels=tuple(labels.split()),
        buckets=buckets,
        values=values,
    )


_GAUGE = Kind.GAUGE
_COUNTER = Kind.COUNTER
_HISTOGRAM = Kind.HISTOGRAM
_SIMILARITY = "comparison segment metric"
_ALERT = "comparison alert segment severity"
_RUN_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_LAG_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_STAGE_S = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0)

_TABLE = {
    "build_info": _series(
        Kind.INFO,
        "version revision python_version",
        "Always 1; the labels name the version of rankwatch, the commit it was built from, and "
        "the Python it runs on.",
    ),
    # What the newest finished run measured. Absent unless that run is ok.
    "similarity_mean": _series(
        _GAUGE, _SIMILARITY, "Mean similarity of baseline and candidate over the users compared."
    ),
    "similarity_standard_error": _series(
        _GAUGE, _SIMILARITY, "Standard error of the mean similarity."
    ),
    "similarity_quantile": _series(
        _GAUGE, f"{_SIMILARITY} q", "Quantile q of the users' similarity."
    ),
    "similarity_share_below_ratio": _series(
        _GAUGE,
        f"{_SIMILARITY} floor",
        "Share of users, from 0 to 1, whose similarity is strictly below the floor.",
    ),
    "similarity_users": _series(
        _GAUGE, _SIMILARITY, "Users behind the similarity: those with a defined score."
    ),
    "similarity_distribution": _series(
        Kind.GAUGE_HISTOGRAM,
        "comparison metric",
        "Users of segment all by similarity, in buckets up to `le`; `_gsum` and `_gcount` give "
        "the mean.",
    ),
    "similarity_undefined_users": _series(
        _GAUGE, _SIMILARITY, "Users compared whose score is undefined."
    ),
    "similarity_by_chance": _series(
        _GAUGE,
        "comparison metric",
        "Similarity to expect of two random lists of k items from the catalogue. Absent if it is "
        "unknown.",
    ),
    "noise_floor_mean": _series(
        _GAUGE, _SIMILARITY, "Mean similarity of the baseline to itself (noise floor)."
    ),
    "noise_floor_users": _series(
        _GAUGE, _SIMILARITY, "Users with a candidate list and two baseline lists."
    ),
    "noise_floor_untrusted": _series(
        _GAUGE,
        "comparison",
        "1 if the noise floor is not trusted, and therefore neither shown nor judged, else 0.",
    ),
    "over_floor_mean": _series(
        _GAUGE,
        _SIMILARITY,
        "Mean excess over noise_floor_users: distance from candidate to baseline minus distance "
        "from the baseline to itself.",
    ),
    "over_floor_standard_error": _series(
        _GAUGE, _SIMILARITY, "Standard error of over_floor_mean, from differences within each user."
    ),
    "arm_metric": _series(
        _GAUGE,
        "comparison segment arm metric",
        "Value of a metric of one arm, such as its coverage of the catalogue. Absent if it is "
        "undefined.",
    ),
    "unlabelled_runs": _series(
        _GAUGE,
        "comparison",
        "Ok runs without metrics of relevance, because labels have not arrived.",
    ),
    "model_version_info": _series(
        _GAUGE,
        "comparison arm model_version",
        "Always 1; the version of an arm's model in the newest finished run. Absent if it is "
        "unknown.",
    ),
    # Coverage of the newest finished run. Absent if the run failed before it was measured.
    "panel_users": _series(
        _GAUGE, "comparison segment", "Users asked for by the newest finished run."
    ),
    "paired_users": _series(
        _GAUGE, "comparison segment", "Users whose two lists could be compared."
    ),
    "coverage_users": _series(
        _GAUGE,
        "comparison segment arm reason",
        "Users whose list was absent or imperfect. Segment all has every reason; other segments "
        "only reasons that occurred.",
    ),
    # States of alerts.
    "alert_state": _series(_GAUGE, _ALERT, "0 quiet, 1 pending, 2 firing."),
    "alert_judged": _series(
        _GAUGE,
        _ALERT,
        "1 when the newest finished run could judge the rule; 0 on no data, too few users, an "
        "error or a run that is not ok.",
    ),
    "alert_value": _series(
        _GAUGE, _ALERT, "Value the rule last judged. Absent unless the newest finished run is ok."
    ),
    "alert_users": _series(
        _GAUGE, _ALERT, "Users behind the value the rule last judged. Absent together with it."
    ),
    "alert_threshold": _series(_GAUGE, _ALERT, "Threshold beyond which the rule is in breach."),
    "alert_expected": _series(
        _GAUGE,
        _ALERT,
        "Value that a learned rule expected of the newest finished run. Absent while it learns.",
    ),
    "alert_normal_lower": _series(
        _GAUGE,
        _ALERT,
        "Lower end of the range that a learned rule expected of the newest finished run. Absent "
        "while it learns.",
    ),
    "alert_normal_upper": _series(_GAUGE, _ALERT, "Upper end of that range."),
    # Runs.
    "run_status": _series(
        _GAUGE,
        "comparison status",
        "1 for the status of the newest finished run, 0 for the others; all 0 before the first.",
    ),
    "run_last_slot_timestamp_seconds": _series(
        _GAUGE, "comparison", "Slot of the newest finished run."
    ),
    "run_last_finished_timestamp_seconds": _series(
        _GAUGE, "comparison", "When the newest finished run ended."
    ),
    "run_last_ok_timestamp_seconds": _series(
        _GAUGE, "comparison", "When a run last ended ok. Absent until one has."
    ),
    "comparison_since_timestamp_seconds": _series(
        _GAUGE,
        "comparison",
        "Start of the comparison: slot of its oldest stored run. Without a run, when this process "
        "first read its configuration.",
    ),
    "stale_after_seconds": _series(
        _GAUGE,
        "comparison",
        "Time without an ok run after which `Stale` fires, unless it is ignored: "
        "`conditions.stale.after` runs and one deadline.",
    ),
    "schedule_interval_seconds": _series(
        _GAUGE,
        "comparison",
        "Longest time between two slots of the schedule. Absent if it is unknown.",
    ),
    "runs_total": _series(
        _COUNTER,
        "comparison status",
        "Runs that this process ended or marked as abandoned.",
        values=(FINISHED,),
    ),
    "slots_skipped_total": _series(
        _COUNTER,
        "comparison reason",
        "Slots without a run: missed (no daemon was running), overlap (the last run had not "
        "ended) or busy (too many runs waited for `concurrent_runs`).",
        values=(("missed", "overlap", "busy"),),
    ),
    "runs_waiting": _series(
        _GAUGE, "", "Runs that are due and wait because `concurrent_runs` are running."
    ),
    "run_duration_seconds": _series(
        _HISTOGRAM,
        "comparison",
        "Time from claim to end of a run.",
        _RUN_S,
    ),
    "stage_duration_seconds": _series(
        _HISTOGRAM,
        "comparison stage",
        "Time spent in each stage of a run.",
        _STAGE_S,
    ),
    "schedule_lag_seconds": _series(
        _HISTOGRAM,
        "comparison",
        "Time from a slot to the start of its run.",
        _LAG_S,
    ),
    "pull_duration_seconds": _series(
        _HISTOGRAM,
        "comparison arm",
        "Time an arm took to answer for all users. Over HTTP the arms wait for each other.",
        _STAGE_S,
        values=(Arm,),
    ),
    "arm_gap_seconds": _series(
        _GAUGE,
        "comparison lists q",
        "Quantile q of the time between the HTTP answers with a user's baseline list and with the "
        "`candidate` or `noise_floor` list.",
    ),
    "source_errors_total": _series(
        _COUNTER,
        "comparison arm reason",
        "Users whose list was absent or imperfect: {}.",
        values=(Arm, CoverageReason),
    ),
    # Leadership.
    "leader": _series(_GAUGE, "", "1 while this daemon is certain that it leads, else 0."),
    "lease_epoch": _series(
        _GAUGE,
        "",
        "Epoch of the leader's lease that this daemon last read. It grows at each takeover.",
    ),
    # Delivery and configuration.
    "notifications_total": _series(
        _COUNTER,
        "receiver outcome",
        "Deliveries: sent, retry (will be tried again), dead (given up) or dropped (no longer "
        "needed).",
        values=(("sent", "retry", "dead", "dropped"),),
    ),
    "delivery_errors_total": _series(
        _COUNTER,
        "receiver reason",
        "Attempts to deliver that failed: {}.",
        values=(DeliveryTrouble,),
    ),
    "pings_total": _series(
        _COUNTER,
        "ping outcome",
        "Dead-man pings: sent, failed (given up) or dropped (replaced by newer ones).",
        values=(("sent", "failed", "dropped"),),
    ),
    "outbox_pending": _series(_GAUGE, "receiver", "Deliveries that wait to be sent."),
    "outbox_held": _series(
        _GAUGE,
        "receiver",
        "Firings that wait: silenced, in maintenance, muted, or inhibited by another alert.",
    ),
    "outbox_given_up": _series(
        _GAUGE, "receiver", "Deliveries that were given up within the last hour."
    ),
    "outbox_oldest_age_seconds": _series(
        _GAUGE, "receiver", "Age of the oldest delivery that waits, 0 if none waits."
    ),
    "database_up": _series(_GAUGE, "", "1 while the database can be read and written, else 0."),
    "database_errors_total": _series(
        _COUNTER,
        "reason",
        "Errors of the database: {}.",
        values=(DatabaseTrouble,),
    ),
    "database_size_bytes": _series(
        _GAUGE,
        "kind",
        ("Bytes on disk of each kind of data, measured every hour: {}. Only the leader shows it."),
        values=(DataKind,),
    ),
    "pruned_rows_total": _series(
        _COUNTER,
        "kind",
        "Old rows that were deleted. An estimate on PostgreSQL, where scores are deleted by "
        "partition.",
        values=(DataKind,),
    ),
    "prune_last_success_timestamp_seconds": _series(
        _GAUGE, "", "When old rows were last deleted. Absent before the first time."
    ),
    "clock_jumps_total": _series(
        _COUNTER, "", "Jumps of the wall clock by more than 5 s, also when the machine sleeps."
    ),
    "watchdog_restarts_total": _series(
        _COUNTER,
        "part",
        "Parts that hung and were restarted: {}.",
        values=(("run", "scheduler", "delivery", "housekeeping"),),
    ),
    "series_cut": _series(
        _GAUGE,
        "comparison",
        "Series of segments that this page leaves out because of `max_series`.",
    ),
    "collector_errors_total": _series(
        _COUNTER,
        "collector",
        "Errors of the parts of this page: {}.",
        values=(COLLECTORS,),
    ),
    "config_last_reload_successful": _series(
        _GAUGE, "", "1 if the configuration in force is the one last read, else 0."
    ),
    "config_last_reload_success_timestamp_seconds": _series(
        _GAUGE, "", "When the configuration was last put in force."
    ),
    "certificate_expiry_timestamp_seconds": _series(
        _GAUGE,
        "",
        ("When the first certificate of this server expires. Absent without TLS."),
    ),
}

SERIES: dict[str, Series] = {
    name: series(name=f"{PREFIX}{name}") for name, series in _TABLE.items()
}
"""The series by name without prefix."""


def series_reference() -> str:
    """Return the table as Markdown for the README."""
    lines = ["| series | type | labels | meaning |\n|---|---|---|---|\n"]
    for series in SERIES.values():
        labels = ", ".join(f"`{label}`" for label in series.labels)
        lines.append(f"| `{series.name}` | {series.kind} | {labels} | {series.help} |\n")
    return "".join(lines)
