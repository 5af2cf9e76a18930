"""The dashboard *Daemon*: whether rankwatch itself is well."""

from __future__ import annotations

from boards.colours import ARMS, BAD, BLUE, GOOD, GREEN, GREY, ORANGE, REASONS, STATUSES, VERMILLION
from boards.layout import JOBS, Json, choice, dashboard, data_source
from boards.panels import coloured, dashed, lines, override, stat, steps
from boards.queries import JOB, RATE, SOME, grown, quantile, series, shown

_INSTANCE = 'instance=~"$instance"'
_DAY = {"interval": "1h"}
"""Runs are rare: over shorter steps most would show nothing."""
_P50, _P95 = "median", "95 %"
_BOTH = coloured({_P50: BLUE, _P95: ORANGE})
_GAPS = {"0.5": _P50, "0.99": "99 %"}


def _process(name: str) -> str:
    return f"process_{name}{{{JOB}, {_INSTANCE}}}"


def _now() -> list[Json]:
    ok = steps((None, BAD), (1, GOOD))
    return [
        stat(
            "Daemons",
            {f"count({series('build_info')})": ""},
            "Daemons that were scraped. One leads, others stand by.",
            limits=ok,
        ),
        stat(
            "Leader",
            {f"{series('leader')} == 1": "{{instance}}"},
            "Who leads. Empty or more than one for longer than the lease: see the runbooks.",
            text="name",
        ),
        stat("Epoch", {shown("lease_epoch"): ""}, "Grows by one at each takeover."),
        stat(
            "Version",
            {f"count by (version) ({series('build_info')})": "{{version}}"},
            "Versions that run, should two be seen while upgrading.",
            text="name",
        ),
        stat("Configuration", {f"min({series('config_last_reload_successful')})": ""}, limits=ok),
        stat("Database", {f"min({series('database_up')})": ""}, limits=ok),
    ]


def _schedule() -> list[Json]:
    age = f"time() - {shown('run_last_finished_timestamp_seconds', SOME, by='comparison')}"
    since = f"min by (comparison) ({series('comparison_since_timestamp_seconds', SOME)})"
    awaited = (
        f"time() - ({shown('run_last_ok_timestamp_seconds', SOME, by='comparison')} or {since})"
    )
    return [
        lines(
            "Lag of runs behind their slot",
            {
                quantile(q, "schedule_lag_seconds", SOME): title
                for q, title in ((0.5, _P50), (0.95, _P95))
            },
            overrides=_BOTH,
            width=8,
            **_DAY,
        ),
        lines(
            "Age of the newest run, in intervals",
            {
                f"({age}) / {shown('schedule_interval_seconds', SOME, by='comparison')}": "{{comparison}}"
            },
            (
                "Time since a run last ended, over the longest time between two slots. Above 2 the "
                "comparison is overdue."
            ),
            width=8,
        ),
        lines(
            "Wait for a run that is ok",
            {
                f"({awaited}) / {shown('stale_after_seconds', SOME, by='comparison')}": "{{comparison}}"
            },
            (
                "Time since a run last ended ok, or since there is the comparison, over the time "
                "after which `Stale` fires."
            ),
            width=8,
        ),
        lines(
            "Runs by status",
            {grown("runs_total", SOME, by="status"): "{{status}}"},
            is_stacked=True,
            overrides=coloured(STATUSES),
            width=8,
            **_DAY,
        ),
        lines(
            "Slots skipped",
            {grown("slots_skipped_total", SOME, by="reason"): "{{reason}}"},
            is_stacked=True,
            overrides=coloured({"missed": VERMILLION, "overlap": ORANGE, "busy": BLUE}),
            width=8,
            **_DAY,
        ),
        lines(
            "Runs that wait for a place",
            {shown("runs_waiting"): "waiting"},
            "Runs that are due while as many as `concurrent_runs` are under way.",
            width=8,
        ),
    ]


def _stages() -> list[Json]:
    spent, ended = (
        f"sum by (stage) (rate({series(f'stage_duration_seconds_{part}', SOME)}{RATE}))"
        for part in ("sum", "count")
    )
    return [
        lines(
            "Duration of runs",
            {
                quantile(q, "run_duration_seconds", SOME): title
                for q, title in ((0.5, _P50), (0.95, _P95))
            },
            overrides=_BOTH,
            width=8,
            **_DAY,
        ),
        lines(
            "Mean duration of stages",
            {f"{spent} / {ended}": "{{stage}}"},
            "Mean time that a run spends in each stage, on each other.",
            is_stacked=True,
            width=8,
            **_DAY,
        ),
        lines(
            "Slowest stages",
            {quantile(0.95, "stage_duration_seconds", SOME, by="stage, le"): "{{stage}}"},
            "95th percentile of the time spent in each stage.",
            width=8,
            **_DAY,
        ),
    ]


def _sources() -> list[Json]:
    return [
        lines(
            "Time to answer",
            {quantile(0.95, "pull_duration_seconds", SOME, by="arm, le"): "{{arm}}"},
            "95th percentile of the time that an arm took to answer for all users of a run.",
            overrides=coloured(ARMS),
            width=8,
            **_DAY,
        ),
        lines(
            "Time between the answers for a user",
            {
                shown("arm_gap_seconds", SOME, f'q="{q}"', by="lists"): f"{{{{lists}}}} {title}"
                for q, title in _GAPS.items()
            },
            width=8,
            **_DAY,
        ),
        lines(
            "Lists that could not be had or were imperfect",
            {f"{grown('source_errors_total', SOME, by='arm, reason')} > 0": "{{arm}} {{reason}}"},
            is_stacked=True,
            overrides=coloured(
                {f".* {reason}": colour for reason, colour in _grouped(REASONS).items()},
                is_pattern=True,
            ),
            width=8,
            **_DAY,
        ),
    ]


def _grouped(colours: dict[str, str]) -> dict[str, str]:
    return {f"({reason})": colour for reason, colour in colours.items()}


def _delivery() -> list[Json]:
    outcomes = {
        "sent": GREEN,
        "retry": ORANGE,
        "dead": VERMILLION,
        "dropped": GREY,
        "failed": VERMILLION,
    }
    of_receiver = coloured(
        {f".* {outcome}": colour for outcome, colour in outcomes.items()}, is_pattern=True
    )
    return [
        lines(
            "Outbox",
            {
                shown("outbox_pending", by="receiver"): "{{receiver}}",
                shown("outbox_held", by="receiver"): "{{receiver}}, held",
                shown("outbox_given_up", by="receiver"): "{{receiver}}, given up",
            },
            (
                "Deliveries that wait to be sent, that are held back, and that were given up "
                "within the last hour."
            ),
            width=8,
        ),
        lines(
            "Oldest delivery waiting",
            {shown("outbox_oldest_age_seconds", by="receiver"): "{{receiver}}"},
            width=8,
        ),
        lines(
            "Deliveries",
            {grown("notifications_total", by="receiver, outcome"): "{{receiver}} {{outcome}}"},
            is_stacked=True,
            overrides=of_receiver,
            width=8,
            **_DAY,
        ),
        lines(
            "Failed attempts to deliver",
            {grown("delivery_errors_total", by="receiver, reason"): "{{receiver}} {{reason}}"},
            is_stacked=True,
            **_DAY,
        ),
        lines(
            "Dead-man pings",
            {grown("pings_total", by="ping, outcome"): "{{ping}} {{outcome}}"},
            is_stacked=True,
            overrides=of_receiver,
            **_DAY,
        ),
    ]


def _database() -> list[Json]:
    return [
        lines("Database up", {series("database_up", _INSTANCE): "{{instance}}"}, min=0, max=1),
        lines(
            "Database errors",
            {grown("database_errors_total", by="reason"): "{{reason}}"},
            is_stacked=True,
            **_DAY,
        ),
        lines(
            "Size by kind of data",
            {shown("database_size_bytes", by="kind"): "{{kind}}"},
            is_stacked=True,
            width=8,
        ),
        lines(
            "Rows deleted",
            {grown("pruned_rows_total", by="kind"): "{{kind}}"},
            is_stacked=True,
            width=8,
            **_DAY,
        ),
        lines(
            "Time since rows were last deleted",
            {f"time() - {shown('prune_last_success_timestamp_seconds')}": "since"},
            "Old rows are deleted regularly; a time that grows means that they no longer are.",
            overrides=coloured({"since": BLUE}),
            width=8,
        ),
    ]


def _leading() -> list[Json]:
    return [
        lines(
            "Leading",
            {series("leader", _INSTANCE): "{{instance}}"},
            is_stacked=True,
            custom={"drawStyle": "line", "lineInterpolation": "stepAfter"},
            width=8,
        ),
        lines("Epoch over time", {series("lease_epoch", _INSTANCE): "{{instance}}"}, width=8),
        lines(
            "Configuration in force",
            {series("config_last_reload_successful", _INSTANCE): "{{instance}}"},
            min=0,
            max=1,
            width=8,
        ),
    ]


def _processes() -> list[Json]:
    collections = f"python_gc_collections_total{{{JOB}, {_INSTANCE}}}"
    own = [
        lines(
            "Memory",
            {_process("resident_memory_bytes"): "{{instance}}"},
            "Resident memory of each daemon.",
            unit="bytes",
        ),
        lines(
            "CPU",
            {f"rate({_process('cpu_seconds_total')}{RATE})": "{{instance}}"},
            "Cores in use by each daemon.",
        ),
        lines(
            "Open files",
            {_process("open_fds"): "{{instance}}", f"min({_process('max_fds')})": "limit"},
            "File descriptors in use by each daemon, and how many it may have.",
            overrides=[override("limit", **dashed(VERMILLION))],
        ),
        lines(
            "Garbage collections",
            {
                f"sum by (instance, generation) (rate({collections}{RATE}))": "{{instance}} generation {{generation}}"
            },
            "How often each generation was collected.",
            unit="cps",
        ),
    ]
    return [{**panel, "gridPos": {"w": 6, "h": 8}} for panel in own] + _itself()


def _itself() -> list[Json]:
    return [
        lines(
            "Series left out",
            {shown("series_cut", SOME, by="comparison"): "{{comparison}}"},
            width=6,
        ),
        lines(
            "Page parts that failed",
            {grown("collector_errors_total", by="collector"): "{{collector}}"},
            width=6,
            **_DAY,
        ),
        lines(
            "Restarts by the watchdog",
            {grown("watchdog_restarts_total", by="part"): "{{part}}"},
            width=6,
            **_DAY,
        ),
        lines(
            "Clock jumps",
            {grown("clock_jumps_total", by="instance"): "{{instance}}"},
            width=6,
            **_DAY,
        ),
    ]


def board() -> Json:
    """The dashboard."""
    variables = [
        data_source("datasource", "Prometheus", "prometheus"),
        JOBS,
        choice(
            "instance",
            "Instance",
            f"label_values(rankwatch_build_info{{{JOB}}}, instance)",
            is_many=True,
        ),
        choice(
            "comparison",
            "Comparison",
            f"label_values(rankwatch_run_status{{{JOB}}}, comparison)",
            is_many=True,
        ),
    ]
    sections = {
        "Now": _now(),
        "Schedule": _schedule(),
        "Runs and their stages": _stages(),
        "Sources": _sources(),
        "Outbox and deliveries": _delivery(),
        "Database": _database(),
        "Leading and configuration": _leading(),
        "Process": _processes(),
    }
    return dashboard("daemon", "Whether rankwatch itself is well.", sections, variables)
