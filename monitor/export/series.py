"""The table of every series that rankwatch shows.

The collectors and the reference are made from it.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial

from monitor.model.errors import DatabaseErrorKind, DeliveryErrorKind
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.retention import DataKind
from monitor.model.runs import RunStatus

SERIES_PREFIX = "rankwatch_"
COLLECTORS = ("results", "daemon", "process", "platform", "gc")
"""The parts of the metrics page. If a part fails, the page shows the other parts."""
FINISHED_STATUSES = tuple(status for status in RunStatus if status is not RunStatus.RUNNING)
"""Statuses of a finished run."""
OWNERS = ("comparison", "receiver", "ping")
"""Labels whose values are names from the configuration. Such a label is always the first one."""


class SeriesKind(StrEnum):
    """The type of a series in Prometheus' terms."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE_HISTOGRAM = "gaugehistogram"
    INFO = "info"


@immutable
class Series:
    """One metric family."""

    name: str  # as Prometheus shows it: names of counters end in ``_total``
    kind: SeriesKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds of a histogram
    values: tuple[Iterable[str], ...] = ()
    """All values of each label except the `owner`. A counter with these values starts at 0."""

    @property
    def owner(self) -> str | None:
        """The first label, if it is one of `OWNERS`."""
        if self.labels and self.labels[0] in OWNERS:
            return self.labels[0]
        return None

    @property
    def starts_at_zero(self) -> bool:
        """Whether to show the series before the first count, so that a first rise is visible."""
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
    name: str,
    labels: str,
    meaning: str,
    buckets: tuple[float, ...] = (),
    *,
    kind: SeriesKind,
    values: tuple[Iterable[str], ...] = (),
) -> Series:
    """Return a series. The values of the last label replace ``{}`` in the meaning."""
    last_values: Iterable[str] = ()
    if values:
        last_values = values[-1]
    listed = ", ".join(f"`{value}`" for value in last_values)
    return Series(
        name=f"{SERIES_PREFIX}{name}",
        kind=kind,
        help=meaning.format(listed),
        labels=tuple(labels.split()),
        buckets=buckets,
        values=values,
    )


_gauge = partial(_series, kind=SeriesKind.GAUGE)
_counter = partial(_series, kind=SeriesKind.COUNTER)
_histogram = partial(_series, kind=SeriesKind.HISTOGRAM)
_SIMILARITY = "comparison segment metric"
_ALERT = "comparison alert segment severity"
_RUN_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_LAG_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_STAGE_S = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0)

_TABLE = (
    _series(
        "build_info",
        "version revision python_version",
        "Always 1. The labels name the version of rankwatch, the commit from which it was built, "
        "and the version of Python.",
        kind=SeriesKind.INFO,
    ),
    # What the newest finished run measured. Absent if the run's status is not ok.
    _gauge(
        "similarity_mean",
        _SIMILARITY,
        "The mean similarity of the baseline's and the candidate's lists, over all compared users.",
    ),
    _gauge("similarity_standard_error", _SIMILARITY, "The standard error of the mean similarity."),
    _gauge(
        "similarity_quantile", f"{_SIMILARITY} q", "The quantile q of the users' similarity scores."
    ),
    _gauge(
        "similarity_share_below_ratio",
        f"{_SIMILARITY} floor",
        "The share of users, from 0 to 1, whose similarity is strictly below `floor`.",
    ),
    _gauge(
        "similarity_users",
        _SIMILARITY,
        "The number of users with a defined score. rankwatch computes the similarity from these "
        "users.",
    ),
    _series(
        "similarity_distribution",
        "comparison metric",
        "The number of compared users whose similarity is at most `le`. To get the mean, divide "
        "`_gsum` by `_gcount`.",
        kind=SeriesKind.GAUGE_HISTOGRAM,
    ),
    _gauge(
        "similarity_undefined_users",
        _SIMILARITY,
        "The number of compared users whose score is undefined.",
    ),
    _gauge(
        "similarity_by_chance",
        "comparison metric",
        "The expected similarity of two random lists of k items from the catalogue. The series is "
        "absent if the value is unknown.",
    ),
    _gauge(
        "noise_floor_mean",
        _SIMILARITY,
        "The noise floor: the mean similarity of two lists of the baseline for the same user.",
    ),
    _gauge(
        "noise_floor_users",
        _SIMILARITY,
        "The number of users for whom the run has one list of the candidate and two lists of the "
        "baseline.",
    ),
    _gauge(
        "noise_floor_untrusted",
        "comparison",
        "1 if the noise floor is not trusted, else 0. rankwatch neither shows nor judges a noise "
        "floor that is not trusted.",
    ),
    _gauge(
        "over_floor_mean",
        _SIMILARITY,
        "The mean excess over the users that are counted in `rankwatch_noise_floor_users`. A "
        "user's excess is the distance between candidate and baseline, minus the distance between "
        "two lists of the baseline.",
    ),
    _gauge(
        "over_floor_standard_error",
        _SIMILARITY,
        "The standard error of `rankwatch_over_floor_mean`, computed from the excess of each user.",
    ),
    _gauge(
        "unpaired_mean",
        f"{_SIMILARITY} series",
        "For an unpaired comparison: the mean over users of the value that the label `series` "
        "names: `baseline_self`, `candidate_self`, `self_gap`, `far_gap` or `outcome`. The series "
        "`baseline_self` and `candidate_self` compare the lists of an arm's users with the same "
        "users' lists before the test. `self_gap` and `far_gap` are differences between the arms. "
        "`outcome` is the relative difference between the arms in an outcome, whose name is in "
        "the label `metric`. `outcome_low` and `outcome_high` are the ends of its confidence "
        "interval.",
    ),
    _gauge(
        "unpaired_standard_error",
        f"{_SIMILARITY} series",
        "The standard error of `rankwatch_unpaired_mean`, computed over users.",
    ),
    _gauge(
        "assigned_users",
        "comparison arm",
        "The number of users that were assigned to the arm since the test began. Only in unpaired "
        "comparisons.",
    ),
    _gauge(
        "switched_users",
        "comparison",
        "The number of users that switched arms since the test began. The series exists only for "
        "unpaired comparisons.",
    ),
    _gauge(
        "split_log_evidence",
        "comparison",
        "The natural logarithm of the evidence that users are not split as planned. If the value "
        "is at least 6.91 (1,000 to 1), rankwatch judges nothing except the split. Only in "
        "unpaired comparisons.",
    ),
    _gauge(
        "arm_metric",
        "comparison segment arm metric",
        "The value of a metric of one arm, such as its coverage of the catalogue. The series is "
        "absent if the value is undefined.",
    ),
    _gauge(
        "unlabelled_runs",
        "comparison",
        "The number of ok runs that are still waiting for relevance data.",
    ),
    _gauge(
        "model_version_info",
        "comparison arm model_version",
        "Always 1. The label `model_version` contains the version of an arm's model in the newest "
        "finished run. The series is absent if the version is unknown.",
    ),
    # Coverage of the newest finished run. Absent if the run failed before it was measured.
    _gauge(
        "panel_users",
        "comparison segment",
        "The number of users whose lists the newest finished run requested.",
    ),
    _gauge(
        "paired_users",
        "comparison segment",
        "The number of users whose two lists could be compared.",
    ),
    _gauge(
        "coverage_users",
        "comparison segment arm reason",
        "The number of users with an absent or imperfect list, for each reason. The segment `all` "
        "has a series for every reason. Other segments have series only for reasons that "
        "occurred.",
    ),
    # States of alerts.
    _gauge(
        "alert_state", _ALERT, "0 if the alert is quiet, 1 if it is pending, 2 if it is firing."
    ),
    _gauge(
        "alert_judged",
        _ALERT,
        "1 if the rule was judged in the newest finished run. 0 if the run is not ok, or if the "
        "rule had no data, too few users or an error.",
    ),
    _gauge(
        "alert_value",
        _ALERT,
        "The value that the rule judged last. The series is absent if the newest finished run is "
        "not ok.",
    ),
    _gauge(
        "alert_users",
        _ALERT,
        "The number of users from whom `rankwatch_alert_value` was computed. The series is absent "
        "if `rankwatch_alert_value` is absent.",
    ),
    _gauge("alert_threshold", _ALERT, "The threshold beyond which the rule is in breach."),
    _gauge(
        "alert_expected",
        _ALERT,
        "The value that a learning rule expected in the newest finished run. The series is absent "
        "while the rule learns.",
    ),
    _gauge(
        "alert_normal_lower",
        _ALERT,
        "The lower end of the range in which a learning rule expected the value of the newest "
        "finished run. The series is absent while the rule learns.",
    ),
    _gauge(
        "alert_normal_upper",
        _ALERT,
        "The upper end of the range in which a learning rule expected the value of the newest "
        "finished run. The series is absent while the rule learns.",
    ),
    # Runs.
    _gauge(
        "run_status",
        "comparison status",
        "1 for the status of the newest finished run, 0 for other statuses. Before the first run "
        "all values are 0.",
    ),
    _gauge("run_last_slot_timestamp_seconds", "comparison", "The slot of the newest finished run."),
    _gauge(
        "run_last_finished_timestamp_seconds",
        "comparison",
        "The time when the newest finished run ended.",
    ),
    _gauge(
        "run_last_ok_timestamp_seconds",
        "comparison",
        "The time when a run last ended with status ok. The series is absent until the first run "
        "with this status.",
    ),
    _gauge(
        "comparison_since_timestamp_seconds",
        "comparison",
        "The slot of the oldest stored run of the comparison. Without a run, the time when this "
        "process first read the comparison's configuration.",
    ),
    _gauge(
        "stale_after_seconds",
        "comparison",
        "The alert `Stale` fires if no run has been ok for this many seconds. The value is the "
        "time in which `conditions.stale.after` consecutive runs are due, plus the `deadline` of "
        "one run. `Stale` does not fire if the configuration ignores this condition.",
    ),
    _gauge(
        "schedule_interval_seconds",
        "comparison",
        "The longest time between two consecutive slots. The series is absent if the value is "
        "unknown.",
    ),
    _counter(
        "runs_total",
        "comparison status",
        "The number of runs that this process finished or marked as abandoned.",
        values=(FINISHED_STATUSES,),
    ),
    _counter(
        "slots_skipped_total",
        "comparison reason",
        "The number of slots without a run. The reason is `missed` (no daemon was running), "
        "`overlap` (the previous run had not ended) or `busy` (too many runs were waiting).",
        values=(("missed", "overlap", "busy"),),
    ),
    _gauge(
        "runs_waiting",
        "",
        "The number of due runs that are waiting because `concurrent_runs` other runs are in "
        "progress.",
    ),
    _histogram(
        "run_duration_seconds",
        "comparison",
        "The time from the claim of a run to its end.",
        _RUN_S,
    ),
    _histogram(
        "stage_duration_seconds",
        "comparison stage",
        "The time that a run spent in each stage.",
        _STAGE_S,
    ),
    _histogram(
        "schedule_lag_seconds",
        "comparison",
        "The time from a slot to the start of the slot's run.",
        _LAG_S,
    ),
    _histogram(
        "pull_duration_seconds",
        "comparison arm",
        "The time that an arm took to return the lists of all users. Over HTTP, the time "
        "includes waiting for the other arm.",
        _STAGE_S,
        values=(Arm,),
    ),
    _gauge(
        "arm_gap_seconds",
        "comparison lists q",
        "The quantile q of the time between the responses of both arms for the same user. One "
        "response contains the baseline's list, and the other response contains the `candidate` "
        "or `noise_floor` list.",
    ),
    _counter(
        "source_errors_total",
        "comparison arm reason",
        "The number of users with an absent or imperfect list. The reason is one of these: {}.",
        values=(Arm, CoverageReason),
    ),
    # Leadership.
    _gauge("leader", "", "1 while this daemon is certain that it is the leader, else 0."),
    _gauge(
        "lease_epoch",
        "",
        "The epoch of the leader's lease, as this daemon last read it. The epoch increases each "
        "time another daemon takes over.",
    ),
    # Delivery and configuration.
    _counter(
        "notifications_total",
        "receiver outcome",
        "The number of attempts to deliver that had this outcome: `sent` (also if repeated), "
        "`retry` (rankwatch tries again), `dead` (given up) or `dropped` (no longer needed).",
        values=(("sent", "retry", "dead", "dropped"),),
    ),
    _counter(
        "delivery_errors_total",
        "receiver reason",
        "The number of failed attempts to deliver. The reason is one of these: {}.",
        values=(DeliveryErrorKind,),
    ),
    _counter(
        "pings_total",
        "ping outcome",
        "The number of pings to dead man's switches that had this outcome: `sent`, `failed` "
        "(given up) or `dropped` (replaced by newer pings).",
        values=(("sent", "failed", "dropped"),),
    ),
    _gauge("outbox_pending", "receiver", "The number of deliveries that are waiting to be sent."),
    _gauge(
        "outbox_held",
        "receiver",
        "The number of firing alerts that send no notification, because they are silenced, in "
        "maintenance, muted, or inhibited by another alert.",
    ),
    _gauge(
        "outbox_given_up",
        "receiver",
        "The number of deliveries that rankwatch gave up within the last hour.",
    ),
    _gauge(
        "outbox_oldest_age_seconds",
        "receiver",
        "The age of the oldest waiting delivery. 0 if no delivery is waiting.",
    ),
    _gauge("database_up", "", "1 while the database can be read and written, else 0."),
    _counter(
        "database_errors_total",
        "reason",
        "The number of errors of the database. The reason is one of these: {}.",
        values=(DatabaseErrorKind,),
    ),
    _gauge(
        "database_size_bytes",
        "kind",
        (
            "The number of bytes on disk, which is measured every hour for each of these kinds of "
            "data: {}. Only the leader exports this series."
        ),
        values=(DataKind,),
    ),
    _counter(
        "pruned_rows_total",
        "kind",
        "The number of expired rows that were deleted. On PostgreSQL, the number is an estimate, "
        "because whole partitions of scores are deleted.",
        values=(DataKind,),
    ),
    _gauge(
        "prune_last_success_timestamp_seconds",
        "",
        "The time when expired rows were last deleted. The series is absent before the first "
        "deletion.",
    ),
    _counter(
        "clock_jumps_total",
        "",
        "The number of times that the wall clock jumped by more than 5 s. If the machine was "
        "suspended, this also counts as a jump.",
    ),
    _counter(
        "watchdog_restarts_total",
        "part",
        "The number of times that a part of the daemon hung and was restarted. The part is one of "
        "these: {}.",
        values=(("run", "delivery", "housekeeping"),),
    ),
    _gauge(
        "series_cut",
        "comparison",
        "The number of series for segments that /metrics leaves out because of `max_series`.",
    ),
    _counter(
        "collector_errors_total",
        "collector",
        "The number of errors while rankwatch produced a part of /metrics. The part is one of "
        "these: {}.",
        values=(COLLECTORS,),
    ),
    _gauge(
        "config_last_reload_successful",
        "",
        "1 if the last reload of the configuration succeeded, else 0.",
    ),
    _gauge(
        "config_last_reload_success_timestamp_seconds",
        "",
        "The time when the configuration was last reloaded successfully.",
    ),
    _gauge(
        "certificate_expiry_timestamp_seconds",
        "",
        "The earliest time at which one of this server's certificates expires. The series is "
        "absent without TLS.",
    ),
)

SERIES = {series.name.removeprefix(SERIES_PREFIX): series for series in _TABLE}
"""Each series by its name without prefix."""


def series_reference() -> str:
    """Return the table as Markdown for the reference."""
    lines = ["| series | type | labels | meaning |\n|---|---|---|---|\n"]
    for series in SERIES.values():
        labels = ", ".join(f"`{label}`" for label in series.labels)
        lines.append(f"| `{series.name}` | {series.kind} | {labels} | {series.help} |\n")
    return "".join(lines)
