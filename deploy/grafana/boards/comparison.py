"""The dashboard *Comparison*: one pair of recommenders, how different, for whom, and why."""

from __future__ import annotations

from typing import Any

from boards import records
from boards.colours import (
    ARMS,
    BAD,
    BLUE,
    GOOD,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    REASONS,
    SKY,
    STATUSES,
    VERMILLION,
    WARN,
)
from boards.layout import JOBS, METRICS, Json, annotation, choice, dashboard, data_source, text_box
from boards.panels import (
    coloured,
    dashed,
    fixed,
    heat_map,
    lines,
    override,
    stat,
    steps,
    table,
    timeline,
)
from boards.queries import JOB, ONE, none_known, prove, series, shown

_METRIC = 'metric="$metric"'
_WHOLE = (ONE, 'segment="all"')
_MEAN = (*_WHOLE, _METRIC)
_SEGMENTS = (ONE, 'segment=~"$segment"')
_ALERTS = (*_SEGMENTS, 'alert=~"$alert"')
_BAND: dict[str, Any] = {"custom__lineWidth": 0, "custom__showPoints": "never"}


def _of_rules_on_the_mean(name: str) -> str:
    """That series of the rules that judge just this mean: their value equals it, for no label names their metric."""
    judged = f"{series('alert_value', *_WHOLE)} == scalar({shown('similarity_mean', *_MEAN)})"
    return f"max({series(name, *_WHOLE)} and ({judged}))"


def _now() -> list[Json]:
    firing = (
        f"sum(max by (alert, segment) ({series('alert_state', ONE)} == bool 2)) or {none_known()}"
    )
    paired = f"{shown('paired_users', *_WHOLE)} / {shown('panel_users', *_WHOLE)}"
    return [
        stat(
            "Alerts firing",
            {firing: ""},
            "Alerts of this comparison that fire now.",
            limits=steps((None, GOOD), (1, BAD)),
        ),
        stat(
            "Newest run",
            {f"max by (status) ({series('run_status', ONE)}) == 1": "{{status}}"},
            "Status of the newest finished run. While it is not ok no similarity is shown.",
            text="name",
            limits=steps((None, GREY)),
            overrides=coloured(STATUSES),
        ),
        stat(
            "Similarity",
            {shown("similarity_mean", *_MEAN): ""},
            "Mean over all users of the newest run.",
            decimals=3,
        ),
        stat("Users compared", {shown("similarity_users", *_MEAN): ""}, "Users behind the mean."),
        stat(
            "Paired",
            {paired: ""},
            "Share of the users asked whose two lists could be compared.",
            unit="percentunit",
            decimals=1,
            limits=steps((None, BAD), (0.9, WARN), (0.95, GOOD)),
        ),
        stat(
            "Last ok run",
            {f"time() - {shown('run_last_ok_timestamp_seconds', ONE)}": ""},
            "Time since a run last ended ok.",
        ),
    ]


def similarity_of_all() -> Json:
    """The panel that the preview draws first."""
    mean, error = shown("similarity_mean", *_MEAN), shown("similarity_standard_error", *_MEAN)
    queries = {
        _of_rules_on_the_mean("alert_normal_upper"): "normal to",
        _of_rules_on_the_mean("alert_normal_lower"): "normal from",
        f"{mean} + 2 * {error}": "error to",
        f"{mean} - 2 * {error}": "error from",
        mean: "similarity",
        shown("noise_floor_mean", *_MEAN): "noise floor",
        _of_rules_on_the_mean("alert_threshold"): "threshold",
        shown("similarity_by_chance", ONE, _METRIC): "by chance",
    }
    return lines(
        "Similarity of all users",
        queries,
        "Mean over all users, with two standard errors on either side. Pale: what a rule that "
        "learns from this mean held for normal. Green: the baseline against itself. Dashed: where "
        "a rule on this mean begins to breach, and what two random lists would give. A gap means "
        "that a run was not ok.",
        width=16,
        height=10,
        overrides=[
            override(
                "normal to",
                color=fixed(SKY),
                custom__fillBelowTo="normal from",
                custom__fillOpacity=15,
                **_BAND,
            ),
            override("normal from", color=fixed(SKY), **_BAND),
            override(
                "error to",
                color=fixed(BLUE),
                custom__fillBelowTo="error from",
                custom__fillOpacity=30,
                **_BAND,
            ),
            override("error from", color=fixed(BLUE), **_BAND),
            override("similarity", color=fixed(BLUE)),
            override("noise floor", color=fixed(GREEN)),
            override("threshold", **dashed(VERMILLION)),
            override("by chance", **dashed(GREY)),
        ],
    )


def quantiles() -> Json:
    """How the users spread."""
    return lines(
        "Quantiles",
        {shown("similarity_quantile", *_MEAN, by="q"): "q {{q}}"},
        "How similar the lists of the users at each quantile are.",
        width=8,
        height=10,
    )


def distribution() -> Json:
    """All users over time."""
    buckets = f"max by (le) ({series('similarity_distribution_bucket', ONE, _METRIC)})"
    return heat_map(
        "Users by similarity",
        {buckets: "{{le}}"},
        "How many users have a similarity in each bucket, brighter the more: a second band below "
        "the first is a group of users for whom something broke.",
    )


def below_floors() -> Json:
    """Users left behind."""
    return lines(
        "Users below a floor",
        {shown("similarity_share_below_ratio", *_MEAN, by="floor"): "below {{floor}}"},
        "Share of users whose two lists are less alike than the floor.",
        min=0,
    )


def _over_floor() -> Json:
    mean, error = shown("over_floor_mean", *_MEAN), shown("over_floor_standard_error", *_MEAN)
    return lines(
        "Farther than the noise floor",
        {f"{mean} + 2 * {error}": "to", f"{mean} - 2 * {error}": "from", mean: "over the floor"},
        (
            "How much farther the candidate is from the baseline than that is from itself, user by "
            "user, with two standard errors."
        ),
        overrides=[
            override(
                "to",
                color=fixed(ORANGE),
                custom__fillBelowTo="from",
                custom__fillOpacity=25,
                **_BAND,
            ),
            override("from", color=fixed(ORANGE), **_BAND),
            override("over the floor", color=fixed(ORANGE)),
        ],
    )


def segments_over_time() -> Json:
    """For whom."""
    return lines(
        "Similarity by segment",
        {shown("similarity_mean", *_SEGMENTS, _METRIC, by="segment"): "{{segment}}"},
        "Mean of each chosen segment.",
    )


def _segments_now() -> Json:
    names = (
        "similarity_mean",
        "similarity_standard_error",
        "similarity_users",
        "similarity_undefined_users",
    )
    paired, asked = (
        shown(name, *_SEGMENTS, by="segment") for name in ("paired_users", "panel_users")
    )
    titles = ("Similarity", "Standard error", "Users", "Undefined", "Paired")
    return table(
        "Segments now",
        {
            **{shown(name, *_SEGMENTS, _METRIC, by="segment"): "" for name in names},
            f"{paired} / {asked}": "",
        },
        (
            "Each chosen segment in the newest run, least alike first. A mean of few users moves "
            "by chance."
        ),
        columns={
            "segment": "Segment",
            **{f"Value #{letter}": title for letter, title in zip("ABCDE", titles, strict=True)},
        },
        decimals=3,
        overrides=[
            override(
                "Similarity",
                custom__cellOptions={"type": "gauge", "mode": "basic"},
                color=fixed(BLUE),
            ),
            *(override(name, decimals=0) for name in ("Users", "Undefined")),
            override("Paired", unit="percentunit", decimals=1),
        ],
        sort=[{"displayName": "Similarity", "desc": False}],
    )


def lost(arm: str) -> Json:
    """Coverage of one arm by reason."""
    users = shown("coverage_users", *_WHOLE, f'arm="{arm}"', by="reason")
    return lines(
        f"Lists of the {arm} lost or imperfect",
        {f"{users} > 0 or {users}": "{{reason}}"},
        (
            "Users whose list was absent or imperfect, by reason. Short and duplicated lists are "
            "compared all the same."
        ),
        is_stacked=True,
        overrides=coloured(REASONS, is_pattern=True),
        width=8,
    )


def _asked() -> Json:
    return lines(
        "Users asked and paired",
        {shown("panel_users", *_WHOLE): "asked", shown("paired_users", *_WHOLE): "paired"},
        "Size of the panel, and how much of it could be compared.",
        overrides=coloured({"asked": GREY, "paired": BLUE}),
        width=8,
        min=0,
    )


def _arms() -> list[Json]:
    return [
        lines(
            "Arm-wide metric",
            {shown("arm_metric", *_WHOLE, 'metric="$arm_metric"', by="arm"): "{{arm}}"},
            (
                "The chosen metric of all lists of one arm together, such as its coverage of the "
                "catalogue."
            ),
            overrides=coloured(ARMS),
        ),
        lines(
            "Arm-wide metric by segment",
            {
                shown(
                    "arm_metric",
                    *_SEGMENTS,
                    'metric="$arm_metric"',
                    'arm="candidate"',
                    by="segment",
                ): "{{segment}}"
            },
            "The same of the candidate's lists alone, for each chosen segment.",
            width=8,
        ),
        lines(
            "Runs that wait for labels",
            {shown("unlabelled_runs", ONE): "runs"},
            width=4,
            overrides=coloured({"runs": GREY}),
        ),
    ]


def alerts_over_time() -> Json:
    """Where alerts stood."""
    return timeline(
        "Alerts",
        {shown("alert_state", *_ALERTS, by="alert, segment"): "{{alert}} {{segment}}"},
        "Where each alert stood. An alert whose rule could not be judged keeps its state.",
        width=24,
        height=6,
    )


def _alerts() -> list[Json]:
    parts = {
        "alert_value": "",
        "alert_normal_lower": " normal from",
        "alert_normal_upper": " normal to",
    }
    parts |= {"alert_expected": " expected", "alert_threshold": " threshold"}
    return [
        alerts_over_time(),
        lines(
            "Value, normal band and threshold",
            {
                shown(name, *_ALERTS, by="alert, segment"): f"{{{{alert}}}} {{{{segment}}}}{end}"
                for name, end in parts.items()
            },
            (
                "What the chosen alerts judged, what they held for normal, and where they begin to "
                "breach."
            ),
            width=16,
            overrides=[
                override(".* normal (from|to)", is_pattern=True, **dashed(SKY, dash=4)),
                override(".* expected", is_pattern=True, **dashed(PURPLE, dash=4)),
                override(".* threshold", is_pattern=True, **dashed(VERMILLION)),
            ],
        ),
        lines(
            "Not judged",
            {
                f"1 - {shown('alert_judged', *_ALERTS, by='alert, segment')}": "{{alert}} {{segment}}"
            },
            (
                "1 while the newest run had no data, too few users or an error for the rule: quiet "
                "then does not mean well."
            ),
            width=8,
            max=1,
        ),
    ]


def _variables() -> list[Json]:
    shown_by = f"{JOB}, {ONE}"
    return [
        data_source("datasource", "Prometheus", "prometheus"),
        data_source("database", "Database", "grafana-postgresql-datasource"),
        JOBS,
        choice(
            "comparison", "Comparison", f"label_values(rankwatch_run_status{{{JOB}}}, comparison)"
        ),
        choice(
            "metric", "Metric", f"label_values(rankwatch_similarity_users{{{shown_by}}}, metric)"
        ),
        choice(
            "segment",
            "Segment",
            f"label_values(rankwatch_panel_users{{{shown_by}}}, segment)",
            is_many=True,
        ),
        choice(
            "alert",
            "Alert",
            f"label_values(rankwatch_alert_state{{{shown_by}}}, alert)",
            is_many=True,
        ),
        choice(
            "arm_metric",
            "Arm-wide metric",
            f"label_values(rankwatch_arm_metric{{{shown_by}}}, metric)",
        ),
        text_box("user", "User", "", "A user's id, for the panel 'One user over time'."),
        text_box(
            "rankwatch",
            "rankwatch",
            "http://127.0.0.1:29108",
            "Where your browser finds rankwatch's own pages.",
        ),
    ]


def _marks() -> list[Json]:
    firing = prove(
        f"max by (alert, segment, severity) ({series('alert_state', ONE)} == 2)",
        "{{alert}} {{segment}} {{severity}}",
    )
    mark = annotation(
        "Alerts firing",
        VERMILLION,
        METRICS,
        {"expr": firing, "range": True, "instant": False, "interval": "60s", "editorMode": "code"},
        titleFormat="{{alert}}",
        textFormat="{{segment}}",
        tagKeys="severity",
    )
    return [mark, *records.marks()]


def board() -> Json:
    """The dashboard."""
    sections = {
        "Now": _now(),
        "Similarity": [
            similarity_of_all(),
            quantiles(),
            distribution(),
            below_floors(),
            _over_floor(),
        ],
        "Segments": [segments_over_time(), _segments_now()],
        "Coverage": [lost("baseline"), lost("candidate"), _asked()],
        "Alerts": _alerts(),
        "Each arm by itself": _arms(),
        "Runs, from the database": records.of_runs(),
        "Users and items, from the database": records.of_users(),
    }
    about = "How alike the lists of two recommenders are, for whom, and why they differ."
    return dashboard(
        "comparison", about, sections, _variables(), annotations=_marks(), since="now-7d"
    )
