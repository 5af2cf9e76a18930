"""Every series that rankwatch shows, in one table.

The collectors and the README's reference are built from it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from monitor.errors import DatabaseTrouble, DeliveryTrouble
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.retention import DataKind
from monitor.model.runs import RunStatus

PREFIX = "rankwatch_"
COLLECTORS = ("results", "daemon", "process", "platform", "gc")
"""What a page is put together from, each by itself: one that fails takes none of the others with it."""
FINISHED = tuple(status for status in RunStatus if status is not RunStatus.RUNNING)
"""Statuses that a finished run can have."""
OWNERS = ("comparison", "receiver", "ping")
"""First labels that name something in the configuration."""


class Kind(StrEnum):
    """Type of a series in Prometheus' words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE_HISTOGRAM = "gaugehistogram"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric family."""

    name: str  # as it is scraped, counters with ``_total``
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds of a histogram
    values: tuple[
        Iterable[str], ...
    ] = ()  # all that each label behind the `owner` can hold: then a counter exists from 0

    @property
    def owner(self) -> str | None:
        """Which of `OWNERS` is the first label."""
        return next((owner for owner in OWNERS if self.labels[:1] == (owner,)), None)

    @property
    def starts_at_zero(self) -> bool:
        """Whether it is shown before anything was counted: what may appear later cannot be seen to rise."""
        return bool(self.labels) and len(self.labels) == len(self.values) + (self.owner is not None)

    @property
    def unit(self) -> str:
        """The unit that the name ends in; empty where it has none."""
        stem = self.name.removesuffix("_total")
        return next(
            (unit for unit in ("seconds", "ratio", "bytes") if stem.endswith(f"_{unit}")), ""
        )


def _series(
    kind: Kind,
    labels: str,
    text: str,
    buckets: tuple[float, ...] = (),
    values: tuple[Iterable[str], ...] = (),
) -> Callable[..., Series]:
    """A series that wants its name; ``{}`` in the text stands for the values of its last label."""
    known = ", ".join(f"`{value}`" for value in (values[-1] if values else ()))
    return partial(
        Series,
        kind=kind,
        help=text.format(known),
        labels=tuple(labels.split()),
        buckets=buckets,
        values=values,
    )


_G, _C, _H, _D, _I = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM, Kind.GAUGE_HISTOGRAM, Kind.INFO
_SIMILARITY = "comparison segment metric"
_ALERT = "comparison alert segment severity"
_RUN_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_LAG_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_STAGE_S = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0)

_TABLE = {
    "build_info": _series(
        _I,
        "version revision python_version",
        (
            "Always 1; the labels name the version of rankwatch, the commit it was built from, and "
            "the Python it runs on."
        ),
    ),
    # What the newest finished run measured. Absent unless that run is ok.
    "similarity_mean": _series(
        _G, _SIMILARITY, "Mean similarity of baseline and candidate over the users compared."
    ),
    "similarity_standard_error": _series(_G, _SIMILARITY, "Standard error of the mean similarity."),
    "similarity_quantile": _series(_G, f"{_SIMILARITY} q", "Quantile q of the users' similarity."),
    "similarity_share_below_ratio": _series(
        _G,
        f"{_SIMILARITY} floor",
        "Share of users, from 0 to 1, whose similarity is strictly below the floor.",
    ),
    "similarity_users": _series(
        _G, _SIMILARITY, "Users behind the similarity: those with a defined score."
    ),
    "similarity_distribution": _series(
        _D,
        "comparison metric",
        (
            "Users of segment all by similarity, in buckets up to `le`; `_gsum` and `_gcount` give "
            "the mean."
        ),
    ),
    "similarity_undefined_users": _series(
        _G, _SIMILARITY, "Users compared whose score is undefined."
    ),
    "similarity_by_chance": _series(
        _G,
        "comparison metric",
        (
            "Similarity to expect of two random lists of k items from the catalogue. Absent where "
            "it is not known."
        ),
    ),
    "noise_floor_mean": _series(
        _G, _SIMILARITY, "Mean similarity of the baseline to itself (noise floor)."
    ),
    "noise_floor_users": _series(
        _G, _SIMILARITY, "Users with a candidate list and two baseline lists."
    ),
    "noise_floor_untrusted": _series(
        _G,
        "comparison",
        "1 where the noise floor is not to be trusted, and so is neither shown nor judged, else 0.",
    ),
    "over_floor_mean": _series(
        _G,
        _SIMILARITY,
        (
            "Mean over noise_floor_users: how much farther the candidate is from the baseline than "
            "that from itself."
        ),
    ),
    "over_floor_standard_error": _series(
        _G, _SIMILARITY, "Standard error of over_floor_mean, users being paired."
    ),
    "arm_metric": _series(
        _G,
        "comparison segment arm metric",
        (
            "Value of a metric of one arm as a whole, such as its coverage of the catalogue. "
            "Absent where it is undefined."
        ),
    ),
    "unlabelled_runs": _series(
        _G,
        "comparison",
        "Ok runs whose measures of relevance are missing because labels have not arrived.",
    ),
    "model_version_info": _series(
        _G,
        "comparison arm model_version",
        (
            "Always 1; the version of an arm's model as of the newest finished run. Absent where "
            "nothing tells it."
        ),
    ),
    # How much of the panel the newest finished run could compare. Absent when the run failed before
    # it knew.
    "panel_users": _series(_G, "comparison segment", "Users asked for by the newest finished run."),
    "paired_users": _series(_G, "comparison segment", "Users whose two lists could be compared."),
    "coverage_users": _series(
        _G,
        "comparison segment arm reason",
        (
            "Users whose list was absent or imperfect. Segment all has every reason; other "
            "segments only reasons that occurred."
        ),
    ),
    # Where alerts stand.
    "alert_state": _series(_G, _ALERT, "0 quiet, 1 pending, 2 firing."),
    "alert_judged": _series(
        _G,
        _ALERT,
        (
            "1 when the newest finished run could judge the rule; 0 on no data, too few users, an "
            "error or a run that is not ok."
        ),
    ),
    "alert_value": _series(
        _G, _ALERT, "Value the rule last judged. Absent unless the newest finished run is ok."
    ),
    "alert_users": _series(
        _G, _ALERT, "Users behind the value the rule last judged. Absent together with it."
    ),
    "alert_threshold": _series(_G, _ALERT, "Threshold beyond which the rule is in breach."),
    "alert_expected": _series(
        _G,
        _ALERT,
        "Value that a rule that learns expected of the newest finished run. Absent while it learns.",
    ),
    "alert_normal_lower": _series(
        _G,
        _ALERT,
        (
            "Lower end of what a rule that learns held for normal in the newest finished run. "
            "Absent while it learns."
        ),
    ),
    "alert_normal_upper": _series(_G, _ALERT, "Upper end of the same."),
    # Runs.
    "run_status": _series(
        _G,
        "comparison status",
        "1 for the status of the newest finished run, 0 for the others; all 0 before the first.",
    ),
    "run_last_slot_timestamp_seconds": _series(
        _G, "comparison", "Slot of the newest finished run."
    ),
    "run_last_finished_timestamp_seconds": _series(
        _G, "comparison", "When the newest finished run ended."
    ),
    "run_last_ok_timestamp_seconds": _series(
        _G, "comparison", "When a run last ended ok. Absent until one has."
    ),
    "comparison_since_timestamp_seconds": _series(
        _G,
        "comparison",
        (
            "Since when there is the comparison: slot of its oldest stored run; without one, when "
            "this process first read of it."
        ),
    ),
    "stale_after_seconds": _series(
        _G,
        "comparison",
        (
            "How long no run may end ok before `Stale` fires where it is not ignored: "
            "`conditions.stale.after` runs, one deadline."
        ),
    ),
    "schedule_interval_seconds": _series(
        _G,
        "comparison",
        "Longest time between two slots of the schedule. Absent where the schedule does not say.",
    ),
    "runs_total": _series(
        _C,
        "comparison status",
        "Runs ended by this process, or found abandoned by it.",
        values=(FINISHED,),
    ),
    "slots_skipped_total": _series(
        _C,
        "comparison reason",
        "Slots that did not run: missed (no daemon was there), overlap (the last run had not "
        "ended) or busy (too many runs waited for `concurrent_runs`).",
        values=(("missed", "overlap", "busy"),),
    ),
    "runs_waiting": _series(
        _G, "", "Runs that are due and wait until fewer than `concurrent_runs` are under way."
    ),
    "run_duration_seconds": _series(_H, "comparison", "Time from claim to end of a run.", _RUN_S),
    "stage_duration_seconds": _series(
        _H, "comparison stage", "Time spent in each stage of a run.", _STAGE_S
    ),
    "schedule_lag_seconds": _series(
        _H, "comparison", "Time from a slot to the start of its run.", _LAG_S
    ),
    "pull_duration_seconds": _series(
        _H,
        "comparison arm",
        "Time an arm took to answer for all users; over HTTP all keep step.",
        _STAGE_S,
        values=(Arm,),
    ),
    "arm_gap_seconds": _series(
        _G,
        "comparison lists q",
        (
            "Quantile q of the time between a user's baseline and `candidate` or `noise_floor` "
            "lists, as they came over HTTP."
        ),
    ),
    "source_errors_total": _series(
        _C,
        "comparison arm reason",
        "Users whose list could not be had or was imperfect: {}.",
        values=(Arm, CoverageReason),
    ),
    # Leading.
    "leader": _series(
        _G, "", "1 while this daemon is sure to lead, 0 while it stands by or cannot be sure."
    ),
    "lease_epoch": _series(
        _G, "", "Epoch of the leader's lease, as this daemon last saw it; grows at each takeover."
    ),
    # Delivery and configuration.
    "notifications_total": _series(
        _C,
        "receiver outcome",
        (
            "Deliveries: sent, retry (will be tried again), dead (given up for good) or dropped "
            "(need not be sent any more)."
        ),
        values=(("sent", "retry", "dead", "dropped"),),
    ),
    "delivery_errors_total": _series(
        _C, "receiver reason", "Attempts to deliver that failed: {}.", values=(DeliveryTrouble,)
    ),
    "pings_total": _series(
        _C,
        "ping outcome",
        "Dead-man pings: sent, failed (given up) or dropped (pushed out by newer ones).",
        values=(("sent", "failed", "dropped"),),
    ),
    "outbox_pending": _series(_G, "receiver", "Deliveries waiting to be sent."),
    "outbox_held": _series(
        _G,
        "receiver",
        "Firings held back: silenced, in maintenance, muted, or inhibited by another alert.",
    ),
    "outbox_given_up": _series(
        _G, "receiver", "Deliveries that were given up for good within the last hour."
    ),
    "outbox_oldest_age_seconds": _series(
        _G, "receiver", "Age of the oldest delivery waiting; 0 when none waits."
    ),
    "database_up": _series(_G, "", "1 while the database can be read and written, else 0."),
    "database_errors_total": _series(
        _C, "reason", "Errors of the database: {}.", values=(DatabaseTrouble,)
    ),
    "database_size_bytes": _series(
        _G,
        "kind",
        (
            "Bytes on disk that each kind of data takes, looked up every hour: {}. Shown by the "
            "daemon that leads."
        ),
        values=(DataKind,),
    ),
    "pruned_rows_total": _series(
        _C,
        "kind",
        (
            "Old rows that were deleted. On PostgreSQL, where scores are deleted by partition, "
            "about how many."
        ),
        values=(DataKind,),
    ),
    "prune_last_success_timestamp_seconds": _series(
        _G, "", "When old rows were last deleted. Absent until they first were."
    ),
    "clock_jumps_total": _series(
        _C, "", "Jumps of the wall clock by more than 5 s, a machine's sleep among them."
    ),
    "watchdog_restarts_total": _series(
        _C,
        "part",
        "What hung and was begun anew: {}.",
        values=(("run", "scheduler", "delivery", "housekeeping"),),
    ),
    "series_cut": _series(
        _G, "comparison", "Series of segments that this page leaves out because of `max_series`."
    ),
    "collector_errors_total": _series(
        _C, "collector", "Parts of this page that could not be made: {}.", values=(COLLECTORS,)
    ),
    "config_last_reload_successful": _series(
        _G, "", "1 when the configuration file last read is the one in force, else 0."
    ),
    "config_last_reload_success_timestamp_seconds": _series(
        _G, "", "When a configuration was last put in force."
    ),
    "certificate_expiry_timestamp_seconds": _series(
        _G,
        "",
        (
            "When the first of the certificates that are shown with these pages ends. Absent "
            "without TLS."
        ),
    ),
}

SERIES: dict[str, Series] = {
    name: series(name=f"{PREFIX}{name}") for name, series in _TABLE.items()
}
"""The table by name without prefix."""


def series_reference() -> str:
    """The table as Markdown, one line a series, for the README."""
    head = "| series | type | labels | meaning |\n|---|---|---|---|\n"
    return head + "".join(
        (
            f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | "
            f"{one.help} |\n"
        )
        for one in SERIES.values()
    )
