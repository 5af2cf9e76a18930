"""Options of one rule, and the word that stands for the default rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, FiniteFloat

from monitor.model import Arm, Severity
from monitor.options import LabelName, Options
from monitor.settings.value_types import (
    AlertName,
    CoverageName,
    JudgedMetricName,
    PublicUrl,
    RunCount,
    SegmentChoice,
    SegmentName,
    StatisticName,
)


class RuleOptions(Options):
    """When to alert: a statistic of a metric, or a share of users, is beyond a threshold for some runs in a row."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [key]} for key in ("below", "above", "over_floor", "learned", "frozen")],
            "anyOf": [
                {"required": ["metric"], "properties": dict.fromkeys(("coverage", "frozen"), False)},
                {"required": ["coverage"], "properties": dict.fromkeys(("metric", "statistic", "frozen", "below"), False)},
                {"required": ["frozen"], "properties": dict.fromkeys(("metric", "statistic", "coverage"), False)},
            ],
        }
    )

    alert: AlertName = Field(description="Name of the alert, unique within the comparison.", examples=["SimilarityLow"])
    metric: JudgedMetricName | None = Field(
        default=None,
        description="One of the comparison's metrics M; with a noise floor also `floor(M)` or `over_floor(M)`. Or give "
        "`coverage` or `frozen`.",
        examples=["rbo(p=0.9)"],
    )
    coverage: CoverageName | None = Field(
        default=None,
        description="Instead of `metric`: the share of users whose list is `missing`, `empty`, `short` or `duplicated`, whose "
        "request `failed`, or who could not be compared (`unpaired`); of those compared, who all get one list (`shared_list`), "
        "whose list is that of the last run although others changed (`unchanged_list`; lists are kept for this), whose first "
        "three items are those of the baseline but mostly turned round (`top_reversed`), or whose first item is another one "
        "(`first_differs`). Of the candidate unless it names the arm.",
        examples=["missing", "failed(baseline)", "shared_list"],
    )
    frozen: Arm | None = Field(
        default=None,
        description="Instead of `metric`: the lists of this arm stand still while those of the other one change, for longer "
        "than ever before. Lists are kept for this.",
        examples=["candidate"],
    )
    statistic: StatisticName = Field(
        default="mean",
        description="`mean`, a percentile `p01` to `p99`, or `share_below(x)`: the share of users who score under x.",
        examples=["mean", "p05", "share_below(0.3)"],
    )
    segments: Annotated[Literal["all", "each"] | tuple[SegmentName, ...], SegmentChoice] = Field(
        default="all",
        description="`all` users together, `each` segment (`all` included), or a list such as `[all, country=UK]`.",
        examples=["each", ["all", "country=UK"]],
    )
    below: FiniteFloat | None = Field(default=None, description="In breach while the statistic is below this.")
    above: FiniteFloat | None = Field(
        default=None,
        description="In breach while the statistic is above this; `share_below` grows as lists drift apart.",
    )
    over_floor: FiniteFloat | None = Field(
        default=None,
        description="Short for `metric: over_floor(M)` and `above`: in breach while the candidate is farther from the baseline "
        "than the baseline from itself by more than this, in units of the metric.",
    )
    learned: Literal["drop", "trend", "jump"] | None = Field(
        default=None,
        description="Instead of a threshold, learned from at least five healthy runs before. `drop` (with `coverage`: `jump`) "
        "is in breach when one run is beyond what is expected, `trend` when runs add up to a lasting change.",
    )
    watch: Literal["drift", "improvement"] = Field(
        default="drift",
        description="With `learned`: the side that is in breach; `improvement` finds lists that are suspiciously similar.",
    )
    for_runs: RunCount = Field(default=1, alias="for", description="Consecutive runs in breach before the alert fires.")
    resolve_above: FiniteFloat | None = Field(
        default=None,
        description="With `below`: a firing alert resolves once the statistic reaches this (default: the threshold).",
    )
    resolve_below: FiniteFloat | None = Field(
        default=None,
        description="With `above`: a firing alert resolves once the statistic reaches this (default: the threshold).",
    )
    resolve_after: RunCount = Field(
        default=1,
        description="Consecutive recovered runs before a firing alert resolves. With more than one an intermittent fault is "
        "one alert.",
    )
    min_users: int = Field(
        default=30,
        ge=1,
        le=10**9,
        description="With scores of fewer users the verdict is `too_few` and never a breach.",
    )
    severity: Severity = Field(default=Severity.WARNING, description="Severity of the alert.")
    dry_run: bool | None = Field(
        default=None,
        description="Whether the alert is recorded without notifying anybody (default: as the comparison).",
    )
    runbook_url: PublicUrl | None = Field(default=None, description="Page that tells on-call what to do.")
    labels: Mapping[LabelName, str] = Field(
        default_factory=dict, description="Further labels of the alert, for routing.", examples=[{"team": "recs"}]
    )


def _refuse_other_words(value: object) -> object:
    if isinstance(value, str):
        msg = "must be default, or a list of rules"
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError only
    return value


RulesOrDefault = BeforeValidator(
    _refuse_other_words, json_schema_input_type=Literal["default"] | Annotated[tuple[RuleOptions, ...], Field(max_length=200)]
)
"""A list of rules, or the word ``default`` in its place."""
