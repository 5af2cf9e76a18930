"""What only the database knows: panels and marks over PostgreSQL.

Names of columns are the titles that people read.

Every query goes by an index and reads at most the runs of the chosen time; values of variables
arrive as SQL strings (``:sqlstring``), so that a quote in a name stays a quote.
"""

from __future__ import annotations

from boards.colours import BLUE, PURPLE
from boards.layout import DATABASE, Json, annotation
from boards.panels import lines, override, table
from boards.queries import Sql

_PAGE = {
    "title": "Newest run in rankwatch",
    "url": "${rankwatch}/c/${comparison:percentencode}",
    "targetBlank": True,
}
_TO_USER = {
    "title": "This user over time",
    "url": "/d/rankwatch-comparison?var-user=${__value.raw}&${comparison:queryparam}&${metric:queryparam}"
    "&${datasource:queryparam}&${database:queryparam}&${job:queryparam}&${__url_time_range}",
    "targetBlank": False,
}

_RUNS = """
SELECT runs.slot AS "Slot", runs.status AS "Status", coalesce(runs.reason, '') AS "Reason",
  coverage.asked AS "Asked", coverage.paired AS "Paired", summaries.mean AS "Similarity",
  extract(epoch FROM runs.finished_at - runs.started_at)::float8 AS "Took"
FROM runs
LEFT JOIN coverage ON coverage.run_id = runs.id AND coverage.segment = 'all'
LEFT JOIN summaries ON summaries.run_id = runs.id AND summaries.segment = 'all' AND summaries.metric = ${metric:sqlstring}
WHERE runs.comparison = ${comparison:sqlstring}
  AND $__timeFilter(runs.slot) AND runs.finished_at IS NOT NULL
ORDER BY runs.slot DESC LIMIT 200
"""
_TRANSITIONS = """
SELECT at AS "Time", alert AS "Alert", segment AS "Segment", severity AS "Severity",
  from_state || ' → ' || to_state AS "State", value AS "Value", threshold AS "Threshold",
  users AS "Users", reason AS "Reason", coalesce(explanation, '') AS "Why"
FROM transitions WHERE comparison = ${comparison:sqlstring} AND $__timeFilter(slot)
ORDER BY slot DESC, id DESC LIMIT 200
"""
_WORST = """
WITH newest AS (
  SELECT id FROM runs WHERE comparison = ${comparison:sqlstring}
  AND status = 'ok' AND $__timeFilter(slot) ORDER BY slot DESC LIMIT 1)
SELECT evidence."user" AS "User", (evidence.scores ->> ${metric:sqlstring})::float8 AS "Similarity",
  (SELECT string_agg(item, ', ' ORDER BY rank) FROM jsonb_array_elements_text(evidence.baseline)
    WITH ORDINALITY AS list(item, rank)) AS "Baseline",
  (SELECT string_agg(item, ', ' ORDER BY rank) FROM jsonb_array_elements_text(evidence.candidate)
    WITH ORDINALITY AS list(item, rank)) AS "Candidate"
FROM newest JOIN evidence ON evidence.run_id = newest.id WHERE evidence.kind = 'worst' ORDER BY evidence.position
"""
_MOVERS = """
WITH newest AS (
  SELECT explanations.details FROM runs JOIN explanations ON explanations.run_id = runs.id
  WHERE runs.comparison = ${comparison:sqlstring}
  AND $__timeFilter(runs.slot) ORDER BY runs.slot DESC LIMIT 1)
SELECT moved.way AS "Change", item ->> 'item' AS "Item", coalesce(item ->> 'title', '') AS "Title",
  (item ->> 'share_before')::float8 AS "Lists before", (item ->> 'share_after')::float8 AS "Lists now",
  (item ->> 'before')::float8 AS "Exposure before", (item ->> 'after')::float8 AS "Exposure now"
FROM newest, LATERAL (VALUES ('gained', details -> 'gained'), ('lost', details -> 'lost')) AS moved(way, items),
  LATERAL jsonb_array_elements(moved.items) AS item
"""
_EXPLANATIONS = """
SELECT runs.slot AS "Slot", explanations.sentence AS "Why"
FROM runs JOIN explanations ON explanations.run_id = runs.id
WHERE runs.comparison = ${comparison:sqlstring}
  AND $__timeFilter(runs.slot) ORDER BY runs.slot DESC LIMIT 50
"""
_USER = """
SELECT slot AS "time", value AS "similarity" FROM user_scores
WHERE comparison = ${comparison:sqlstring}
  AND $__timeFilter(slot) AND user_id = ${user:sqlstring} AND metric = ${metric:sqlstring}
ORDER BY slot
"""
_RUN_MARKS = """
SELECT finished_at AS "time", 'run of ' || to_char(slot, 'YYYY-MM-DD HH24:MI') || ': '
  || coalesce(reason, status) AS text, 'run,' || status AS tags
FROM runs WHERE comparison = ${comparison:sqlstring}
  AND $__timeFilter(slot) AND finished_at IS NOT NULL
ORDER BY slot DESC LIMIT 500
"""
_ALERT_MARKS = """
SELECT at AS "time", alert || ' of ' || segment || ': ' || from_state || ' → ' || to_state || ', ' || reason AS text,
  'alert,' || severity AS tags
FROM transitions WHERE comparison = ${comparison:sqlstring}
  AND $__timeFilter(slot) ORDER BY slot DESC LIMIT 500
"""


def marks() -> list[Json]:
    """Runs and changes of alerts over the graphs."""
    as_taken = {"format": "table", "rawQuery": True, "editorMode": "code"}
    return [
        annotation("Ends of runs", BLUE, DATABASE, {"rawSql": _RUN_MARKS, **as_taken}),
        annotation("Changes of alerts", PURPLE, DATABASE, {"rawSql": _ALERT_MARKS, **as_taken}),
    ]


def of_runs() -> list[Json]:
    """Runs, changes of alerts and why, newest first."""
    return [
        table(
            "Runs",
            Sql(_RUNS),
            (
                "Finished runs of the chosen time, newest first. A click on a slot opens "
                "rankwatch's page of the comparison."
            ),
            decimals=3,
            overrides=[
                override("Slot", links=[_PAGE]),
                *(override(name, decimals=0) for name in ("Asked", "Paired")),
                override("Took", unit="s", decimals=1),
            ],
        ),
        table(
            "Alert changes",
            Sql(_TRANSITIONS),
            "Changes of alerts: from which state to which, over how many users, and why.",
            decimals=3,
            overrides=[override("Users", decimals=0)],
        ),
        table(
            "Why similarity fell",
            Sql(_EXPLANATIONS),
            "One sentence for each run whose drop was explained.",
        ),
    ]


def of_users() -> list[Json]:
    """Users and items behind the newest run."""
    return [
        table(
            "Worst users",
            Sql(_WORST),
            (
                "Users of the newest ok run whose lists agree least, with both lists. A click on a "
                "user shows them over time."
            ),
            decimals=3,
            overrides=[override("User", links=[_TO_USER])],
        ),
        table(
            "Movers",
            Sql(_MOVERS),
            (
                "Items that gained or lost most in the newest run that was explained: share of "
                "lists that hold them, and exposure."
            ),
            overrides=[
                override("Lists (before|now)", is_pattern=True, unit="percentunit", decimals=1)
            ],
            decimals=3,
        ),
        lines(
            "One user over time",
            Sql(_USER),
            (
                "Scores of the user in the box at the top. Empty until one is chosen, and where "
                "scores of users are not kept."
            ),
            overrides=[override("similarity", color={"mode": "fixed", "fixedColor": BLUE})],
            width=24,
        ),
    ]
