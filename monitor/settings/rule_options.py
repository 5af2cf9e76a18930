"""Options of one rule, and how they become a rule. Also reads the word ``default`` for rules."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import BeforeValidator, ConfigDict, Field, FiniteFloat

from monitor.boundary.options import LabelName, Options, must
from monitor.measures.metrics import Metric, drift_direction
from monitor.model import rules
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.statistics import DISTANCES, UNPAIRED_SERIES, DerivedMetric, parse_derived
from monitor.settings import value_types

_OF_EVERY_RULE = {
    "alert",
    "segments",
    "for_runs",
    "resolve_after",
    "min_users",
    "severity",
    "runbook_url",
    "labels",
}


_NO_METRICS = {
    "p_value": "no rule judges p-values, because two healthy trainings always differ: write a "
    "metric and learned",
    "impressions": "no rule judges impressions, because the lists of one user are alike: write a "
    "metric, which has one score for each user",
}


@immutable
class JudgedMetric:
    """The scores that a rule judges: those of a metric, of the noise floor, or their difference."""

    metric: Metric
    derived: DerivedMetric | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a name such as ``rbo(p=0.9)``, ``floor(rbo(p=0.9))`` or ``over_floor(rbo)``.

        Raises MetricError for an unknown name. ValueError for values that no rule may judge.
        """
        if text.strip() in _NO_METRICS:
            raise ValueError(_NO_METRICS[text.strip()])
        derived, name = parse_derived(text.strip())
        return cls(metric=value_types.parse_metric(name), derived=derived)

    def __str__(self) -> str:
        name = str(self.metric)
        return name if self.derived is None else self.derived.of(name)

    @property
    def short_name(self) -> str:
        """The name without the metric's parameters."""
        name = self.metric.name
        return name if self.derived is None else self.derived.of(name)

    def bounds(self, k: int | None) -> tuple[float, float]:
        """The lowest and the highest possible score. With k, of lists of at most k items."""
        low, high = self.metric.bounds(k) if k else (self.metric.low, self.metric.high)
        if self.derived is DerivedMetric.FAR_GAP:
            return -1.0, 1.0
        if self.derived in DISTANCES:
            return low - high, high - low
        return low, high


JudgedMetricName = Annotated[JudgedMetric, value_types.ParsedBy(JudgedMetric.parse)]


class RuleOptions(Options):
    """When to alert. A rule is in breach if a statistic or a share of users passes a limit."""

    stays_partial: ClassVar[bool] = True
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [key]} for key in ("below", "above", "learned", "frozen")],
            "anyOf": [
                {
                    "required": ["metric"],
                    "properties": dict.fromkeys(("coverage", "frozen"), False),
                },
                {
                    "required": ["coverage"],
                    "properties": dict.fromkeys(("metric", "statistic", "frozen", "below"), False),
                },
                {
                    "required": ["frozen"],
                    "properties": dict.fromkeys(("metric", "statistic", "coverage"), False),
                },
                {
                    "required": ["outcome"],
                    "properties": dict.fromkeys(
                        ("metric", "statistic", "coverage", "frozen", "learned", "segments"), False
                    ),
                },
            ],
        }
    )

    alert: value_types.AlertName = Field(examples=["SimilarityLow"])
    """Name of the alert, unique within the comparison."""
    metric: JudgedMetricName | None = Field(default=None, examples=["rbo(p=0.9)"])
    """The metric to judge: one of the comparison's metrics M. With a noise floor, `floor(M)` and
    `over_floor(M)` are possible too. In an unpaired comparison, only `self_gap(M)`, `far_gap(M)`,
    `baseline_self(M)` and `candidate_self(M)` are possible. A rule may have `coverage`, `frozen` or
    `outcome` in place of a metric."""
    coverage: value_types.CoverageName | None = Field(
        default=None, examples=["missing", "failed(baseline)", "shared_list"]
    )
    """Judges a share of users in place of a `metric`. By default, the rule looks at the candidate's
    lists. For the baseline's lists, write the arm in brackets: `failed(baseline)`. The first six of
    the following values are shares of all users whose lists the run requested. `missing` counts
    users without a list. `empty` counts users with an empty list. `short` counts users with a list
    of fewer than `k` items. `duplicated` counts users with an item twice in the list. `failed`
    counts users whose request failed. `unpaired` counts users that were not compared. All other
    values are shares of the compared users. `shared_list` counts users with the arm's most common
    list. `unchanged_list` counts users with the same list as in the last run, although lists of
    other users changed. `exposure_jump` is the largest change of one item's share of the lists, or
    of the first places: (now - before)² / (now + before), minus 40 times the mean of this value
    over other items. If the item is new or gone, the result is nearly the share of the lists that
    contain the item, or that contained it before. `shifted_list` counts users whose former first
    item is gone, or users whose first item is new, whichever are more. `exposure_jump` and
    `shifted_list` compare the lists with the last run before the firing alerts began.
    `unchanged_list`, `exposure_jump` and `shifted_list` need stored lists. `top_reversed` counts
    users whose first three items are the same in both arms, but in mostly reversed order.
    `first_differs` counts users whose first item differs between the arms. `identical_list` counts
    users with the same list in both arms. `alike_list` counts users with nearly the same list.
    `interleaved_list` counts users whose list from the candidate has the baseline's first items
    near the top."""
    frozen: Arm | None = Field(default=None, examples=["candidate"])
    """Judges how long the lists of this arm stay the same, in place of a `metric`. The rule is in
    breach if the lists have not changed for an unusually long time while the other arm's lists
    change. Such a rule needs stored lists, so rankwatch stores lists."""
    outcome: str | None = Field(default=None, examples=["clicks"])
    """Judges an outcome of an unpaired comparison, in place of a `metric`. The outcome is a column
    that is listed under `unpaired.outcomes`. With `below: -0.02`, the rule is in breach if the
    candidate's outcome is surely more than 2 % lower than the baseline's. With `above: 0.02`, the
    rule is in breach if the candidate's outcome is surely more than 2 % higher."""
    statistic: value_types.StatisticName = Field(
        default=rules.MEAN, examples=["mean", "p05", "share_below(0.3)"]
    )
    """The statistic to judge: `mean`, a percentile from `p01` to `p99`, or `share_below(x)`.
    `share_below(x)` is the share of users with a score below x."""
    segments: Annotated[
        Literal["all", "each"] | tuple[value_types.SegmentName, ...], value_types.SegmentChoice
    ] = Field(default="all", examples=["each", ["all", "country=UK"]])
    """`all` judges all users together. `each` judges every segment, including `all`. `[all,
    country=UK]` judges the segments `all` and `country=UK`."""
    below: FiniteFloat | None = None
    """The rule is in breach while the statistic is below this number."""
    above: FiniteFloat | None = None
    """The rule is in breach while the statistic is above this number. Use `above` for
    `share_below(x)`, because this share grows as lists drift apart."""
    learned: Literal["drop", "trend", "jump"] | None = None
    """Replaces a threshold. The rule learns its limit from earlier healthy runs, and needs at least
    five of them. With `drop`, the rule is in breach if one run is outside the expected range. For
    `coverage`, write `jump` instead of `drop`. With `trend`, the rule is in breach if small changes
    of many runs add up to a lasting change."""
    watch: Literal["drift", "improvement"] = "drift"
    """Which direction of change is a breach. Only for rules with `learned`. `drift` means less
    similar lists. `improvement` means lists that are suspiciously similar."""
    for_runs: value_types.RunCount = Field(default=1, alias="for")
    """How many consecutive runs must be in breach before the alert fires."""
    resolve_above: FiniteFloat | None = None
    """A firing alert with `below` resolves when the statistic is at least this number (default: the
    number in `below`)."""
    resolve_below: FiniteFloat | None = None
    """A firing alert with `above` resolves when the statistic is at most this number (default: the
    number in `above`)."""
    resolve_after: value_types.RunCount = 1
    """A firing alert resolves after this many consecutive runs without a breach. With 2 or more, an
    intermittent fault causes one alert instead of many."""
    min_users: int = Field(default=30, ge=1, le=10**9)
    """A verdict needs at least this number of users with a score. With fewer users the outcome is
    `too_few`, never a breach."""
    severity: rules.Severity = rules.Severity.WARNING
    """Severity of the alert."""
    dry_run: bool | None = None
    """With `true`, the alert is stored but nobody is notified (default: the value of the
    comparison)."""
    runbook_url: value_types.PublicUrl | None = None
    """Web page with instructions for on-call."""
    labels: Mapping[LabelName, str] = Field(default_factory=dict, examples=[{"team": "recs"}])
    """Further labels of the alert, for routing."""

    def to_rule(self, k: int) -> rules.Rule:
        """Return the rule for lists of at most k items. The options must be valid."""
        common = self.model_dump(include=_OF_EVERY_RULE)
        if self.frozen is not None:
            return rules.StandstillRule(arm=self.frozen, **common)
        if self.coverage is not None:
            return rules.CoverageRule(share=self.coverage, limit=self._limit, **common)
        if self.outcome is not None:
            is_below = self.below is not None
            end = DerivedMetric.OUTCOME_HIGH if is_below else DerivedMetric.OUTCOME_LOW
            metric = end.of(self.outcome)
            return rules.SimilarityRule(metric=metric, limit=self._limit, **common)
        # A valid rule without `frozen`, `coverage` and `outcome` has a metric.
        judged = cast("JudgedMetric", self.metric)
        # Many healthy users of an unpaired comparison have no list of before. So it is not checked
        # whether their scores could change the verdict.
        scores = None if judged.derived in UNPAIRED_SERIES else judged.bounds(k)
        return rules.SimilarityRule(
            metric=str(judged),
            statistic=self.statistic,
            limit=self._limit,
            scores=scores,
            **common,
        )

    @property
    def _limit(self) -> rules.Limit:
        """The learned limit, or the fixed limit with the value at which the alert ends."""
        if self.learned is not None:
            return self._learned_limit
        if self.below is not None:
            direction = rules.Direction.BELOW
            threshold = self.below
            resolve_at = self.resolve_above
        else:
            direction = rules.Direction.ABOVE
            # Each rule has one of `learned`, `below` and `above`. The 0.0 is for the type checker.
            threshold = self.above or 0.0
            resolve_at = self.resolve_below
        if resolve_at is None:
            resolve_at = threshold
        return rules.FixedLimit(direction=direction, value=threshold, resolve_at=resolve_at)

    @property
    def _learned_limit(self) -> rules.LearnedLimit:
        """The learned limit: the side that alerts, and the last value on this side."""
        direction = rules.Direction.ABOVE
        lowest, highest = 0.0, 1.0
        if self.metric is not None:
            direction = drift_direction(str(self.metric), self.statistic)
            if self.statistic.floor is None:
                lowest, highest = self.metric.bounds(None)
        if self.watch == "improvement":
            direction = direction.opposite
        return rules.LearnedLimit(
            learning=rules.Learning.TREND if self.learned == "trend" else rules.Learning.DROP,
            direction=direction,
            value=highest if direction is rules.Direction.ABOVE else lowest,
        )


def _is_no_text(value: object) -> bool:
    return not isinstance(value, str)


RulesOrDefault = BeforeValidator(
    must(_is_no_text, "must be default, or a list of rules").func,
    json_schema_input_type=Literal["default"]
    | Annotated[tuple[RuleOptions, ...], Field(max_length=200)],
)
"""A list of rules, or the word ``default``."""
