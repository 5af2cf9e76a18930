"""The dashboard *Overview*: every comparison, where it stands."""

from __future__ import annotations

from boards.colours import BAD, GOOD, STATUSES, WARN
from boards.layout import JOBS, Json, choice, dashboard, data_source
from boards.panels import coloured, lines, override, stat, states, steps, table, timeline
from boards.queries import JOB, none_known, series, shown

_METRIC = 'metric="$metric"'
_WHOLE = 'segment="all"'
_TO_COMPARISON = {
    "title": "Open this comparison",
    "url": "/d/rankwatch-comparison?var-comparison=${__value.raw}&${datasource:queryparam}&${job:queryparam}"
    "&${metric:queryparam}&${__url_time_range}",
    "targetBlank": False,
}
_TITLES = {
    "comparison": "Comparison",
    "Value #A": "Alerts",
    "Value #B": "Similarity",
    "Value #C": "Normal from",
    "Value #D": "Normal to",
    "Value #E": "Threshold",
    "Value #F": "Users",
    "Value #G": "Paired",
    "Value #H": "Last ok run",
    "Value #I": "Next run due",
}


def _of_rules_on_the_mean(name: str) -> str:
    """That series of the rules that judge just this mean: their value equals it, for no label names their metric."""
    mean = shown("similarity_mean", _METRIC, _WHOLE, by="comparison")
    judged = f"{series('alert_value', _WHOLE)} == on (comparison) group_left () {mean}"
    return f"max by (comparison) ({series(name, _WHOLE)} and ({judged}))"


def _comparisons() -> Json:
    whole, last = (_METRIC, _WHOLE), series("run_last_ok_timestamp_seconds")
    due = (
        f"{shown('run_last_slot_timestamp_seconds', by='comparison')} + "
        f"{shown('schedule_interval_seconds', by='comparison')}"
    )
    paired, asked = (
        shown(name, _WHOLE, by="comparison") for name in ("paired_users", "panel_users")
    )
    queries = {
        shown("alert_state", by="comparison"): "",
        shown("similarity_mean", *whole, by="comparison"): "",
        _of_rules_on_the_mean("alert_normal_lower"): "",
        _of_rules_on_the_mean("alert_normal_upper"): "",
        _of_rules_on_the_mean("alert_threshold"): "",
        shown("similarity_users", *whole, by="comparison"): "",
        f"{paired} / {asked}": "",
        f"max by (comparison) ({last}) * 1000": "",
        f"({due}) * 1000": "",
    }
    return table(
        "Comparisons",
        queries,
        "Each comparison as its newest finished run left it. Similarity is the mean over all "
        "users; normal is what a rule that learns from this mean held for normal, the threshold "
        "where a rule on it begins to breach. Without a number the newest run was not ok. A click "
        "on the name opens the comparison.",
        height=10,
        columns=_TITLES,
        decimals=3,
        overrides=[
            override("Comparison", links=[_TO_COMPARISON]),
            override(
                "Alerts",
                mappings=states(),
                custom__cellOptions={"type": "color-background", "mode": "basic"},
            ),
            override("Users", decimals=0),
            override("Paired", unit="percentunit", decimals=1),
            *(override(name, unit="dateTimeFromNow") for name in ("Last ok run", "Next run due")),
        ],
        sort=[{"displayName": "Alerts", "desc": True}],
    )


def _now() -> list[Json]:
    none = none_known()
    firing = (
        f"sum(max by (comparison, alert, segment) ({series('alert_state')} == bool 2)) or {none}"
    )
    unjudged = f"sum(max by (comparison, alert, segment) (1 - {series('alert_judged')})) or {none}"
    bad = series("run_status", 'status!="ok"')
    not_ok = f"count(max by (comparison) ({bad}) == 1) or {none}"
    late = f"time() - {shown('run_last_slot_timestamp_seconds', by='comparison')}"
    overdue = f"count({late} > 2 * {shown('schedule_interval_seconds', by='comparison')}) or {none}"
    bad_from_one = steps((None, GOOD), (1, BAD))
    return [
        stat(
            "Watched",
            {f"count(max by (comparison) ({series('stale_after_seconds')}))": ""},
            "Comparisons that are watched.",
        ),
        stat(
            "Alerts firing",
            {firing: ""},
            "Alerts that fire now, each segment counted.",
            limits=bad_from_one,
        ),
        stat(
            "Not judged",
            {unjudged: ""},
            "Alerts that the newest run could not judge: their quiet does not mean well.",
            limits=steps((None, GOOD), (1, WARN)),
        ),
        stat(
            "Runs not ok",
            {not_ok: ""},
            "Comparisons whose newest run did not end ok.",
            limits=bad_from_one,
        ),
        stat(
            "Overdue",
            {overdue: ""},
            (
                "Comparisons whose newest finished slot is more than two intervals old: nothing is "
                "known of now."
            ),
            limits=bad_from_one,
        ),
        stat(
            "Daemons that lead",
            {f"sum({series('leader')})": ""},
            "One leads; 0 for longer than the lease means that nobody makes runs.",
            limits=steps((None, BAD), (1, GOOD), (2, BAD)),
        ),
    ]


def _over_time() -> list[Json]:
    status = f"max by (comparison, status) ({series('run_status')} == 1)"
    return [
        timeline(
            "Alerts",
            {shown("alert_state", by="comparison, alert"): "{{comparison}} {{alert}}"},
            (
                "Where each alert stood, the worst of its segments. An alert that could not be "
                "judged keeps its state."
            ),
            width=24,
        ),
        lines(
            "Similarity",
            {shown("similarity_mean", _METRIC, _WHOLE, by="comparison"): "{{comparison}}"},
            "Mean over all users of each comparison. A gap means that a run was not ok.",
        ),
        lines(
            "Users paired",
            {
                f"{shown('paired_users', _WHOLE, by='comparison')} / {shown('panel_users', _WHOLE, by='comparison')}": (
                    "{{comparison}}"
                )
            },
            "Share of the users asked whose two lists could be compared.",
            unit="percentunit",
            max=1,
        ),
        lines(
            "Status of the newest run",
            {f"count by (status) ({status})": "{{status}}"},
            "Comparisons by how their newest run ended.",
            is_stacked=True,
            overrides=coloured(STATUSES),
            width=24,
            height=6,
        ),
    ]


def board() -> Json:
    """The dashboard."""
    variables = [
        data_source("datasource", "Prometheus", "prometheus"),
        JOBS,
        choice("metric", "Metric", f"label_values(rankwatch_similarity_users{{{JOB}}}, metric)"),
    ]
    sections = {"Now": [*_now(), _comparisons()], "Over time": _over_time()}
    return dashboard(
        "overview", "All comparisons: do two recommenders still agree?", sections, variables
    )
