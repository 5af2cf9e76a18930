"""Options of one rule, and how they become a rule. Also reads the word ``default`` for rules.

Each kind of rule has its own options, because most keys have a meaning for some kinds only.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import (
    BeforeValidator,
    Field,
    FiniteFloat,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from monitor.boundary.options import LabelName, Options, must
from monitor.boundary.options.problems import KeyPath, Problems, nearest_word
from monitor.measures.metrics import Metric, drift_direction
from monitor.model import rules
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.statistics import DISTANCES, UNPAIRED_SERIES, DerivedMetric, parse_derived
from monitor.settings import value_types

_COMMON_FIELDS = {
    "alert",
    "segments",
    "for_runs",
    "resolve_after",
    "min_users",
    "severity",
    "runbook_url",
    "labels",
}
"""The options that become fields of the same name in each rule that has them."""


# Series that a rule could name, but that no rule judges, each with the message about it.
_UNJUDGED_MESSAGES = {
    "p_value": "no rule judges p-values, because two healthy trainings always differ: write a "
    "metric and learned",
    "impressions": "no rule judges impressions, because the lists of one user are alike: write a "
    "metric, which has one score for each user",
}


@immutable
class JudgedMetric:
    """What a rule judges: the scores of a metric, or values that are derived from these scores."""

    metric: Metric
    derived_metric: DerivedMetric | None = None  # None if the rule judges the scores themselves

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a name such as ``rbo(p=0.9)``, ``floor(rbo(p=0.9))`` or ``over_floor(rbo)``.

        Raises MetricError for an unknown name, and ValueError for a value that no rule may judge.
        """
        stripped = text.strip()
        if stripped in _UNJUDGED_MESSAGES:
            raise ValueError(_UNJUDGED_MESSAGES[stripped])
        derived_metric, metric_name = parse_derived(stripped)
        metric = value_types.parse_metric(metric_name)
        return cls(metric=metric, derived_metric=derived_metric)

    def __str__(self) -> str:
        name = str(self.metric)
        return name if self.derived_metric is None else self.derived_metric.of(name)

    @property
    def short_name(self) -> str:
        """The name without the metric's parameters."""
        name = self.metric.name
        return name if self.derived_metric is None else self.derived_metric.of(name)

    def bounds(self, k: int | None) -> tuple[float, float]:
        """The lowest and the highest possible value. With k, for lists of at most k items."""
        low, high = self.metric.low, self.metric.high
        if k:
            low, high = self.metric.bounds(k)
        if self.derived_metric is DerivedMetric.FAR_GAP:
            return -1.0, 1.0  # a difference of two shares
        if self.derived_metric in DISTANCES:
            return low - high, high - low  # a difference of two scores
        return low, high


JudgedMetricName = Annotated[JudgedMetric, value_types.ParsedBy(JudgedMetric.parse)]


class RuleOptions(Options):
    """When to alert.

    A rule has exactly one of the keys `metric`, `coverage`, `frozen` and `outcome`. This key
    decides which other keys the rule may have.
    """

    stays_partial: ClassVar[bool] = True
    key: ClassVar[str]  # the key that only this kind of rule has
    excluding: ClassVar[str]  # why the rule may not have keys of other kinds

    alert: value_types.AlertName = Field(examples=["SimilarityLow"])
    """Name of the alert, unique within the comparison."""
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

    @classmethod
    def file_keys(cls) -> list[str]:
        """The keys of all kinds of rules. A rule with a misspelled key may be of any kind."""
        # `super` skips this method, so each call returns the keys of one kind.
        keys_by_kind = (super(RuleOptions, kind).file_keys() for kind in KINDS)
        return list(dict.fromkeys(chain.from_iterable(keys_by_kind)))

    def to_rule(self, k: int) -> rules.Rule:
        """Return the rule for lists of at most k items. The options must be valid."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema. It requires `key`, and one limit if rules of this kind have limits."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        schema["required"] = ["alert", cls.key]
        limits = [name for name in ("below", "above", "learned") if name in cls.model_fields]
        if limits:
            schema["oneOf"] = [{"required": [name]} for name in limits]
        return schema

    @property
    def _common_fields(self) -> dict[str, Any]:
        return self.model_dump(include=_COMMON_FIELDS)

    @classmethod
    def _report_unknown(cls, key: str, path: KeyPath, problems: Problems) -> str | None:
        """See `Options`. A key of another kind of rule gets a message of its own."""
        if key not in cls.file_keys():
            return super()._report_unknown(key, path, problems)
        problems.add((*path, key), f"does not go with {cls.key}, {cls.excluding}")
        return None


class _LimitKeys(RuleOptions):
    """Keys of rules that compare a value with a limit."""

    above: FiniteFloat | None = None
    """The rule is in breach while the statistic is above this number. Use `above` for
    `share_below(x)`, because this share grows as lists drift apart."""
    resolve_below: FiniteFloat | None = None
    """A firing alert with `above` resolves when the statistic is at most this number (default: the
    number in `above`)."""
    for_runs: value_types.RunCount = Field(default=1, alias="for")
    """How many consecutive runs must be in breach before the alert fires."""
    resolve_after: value_types.RunCount = 1
    """A firing alert resolves after this many consecutive runs without a breach. If you set this
    key to 2 or more, an intermittent fault causes one alert instead of many."""

    @property
    def limit(self) -> rules.Limit:
        """The fixed limit, with the value at which the alert ends."""
        # A valid rule without ``below`` has ``above``. The 0.0 is for the type checker.
        return _fix_limit(rules.Direction.ABOVE, self.above or 0.0, self.resolve_below)


class _BelowKeys(_LimitKeys):
    """Keys of rules that can also be in breach below a limit."""

    below: FiniteFloat | None = None
    """The rule is in breach while the statistic is below this number."""
    resolve_above: FiniteFloat | None = None
    """A firing alert with `below` resolves when the statistic is at least this number (default: the
    number in `below`)."""

    @property
    def limit(self) -> rules.Limit:
        """The fixed limit, with the value at which the alert ends."""
        if self.below is None:
            return super().limit
        return _fix_limit(rules.Direction.BELOW, self.below, self.resolve_above)


class _LearnedKeys(_LimitKeys):
    """Keys of rules that can learn their limit, and that judge segments."""

    segments: Annotated[
        Literal["all", "each"] | tuple[value_types.SegmentName, ...], value_types.SegmentChoice
    ] = Field(default="all", examples=["each", ["all", "country=UK"]])
    """With `all`, the rule judges all users together. With `each`, the rule judges every segment,
    including `all`. With `[all, country=UK]`, the rule judges the segments `all` and
    `country=UK`."""
    learned: Literal["drop", "trend", "jump"] | None = None
    """Use this key in place of a threshold. The rule learns its limit from earlier healthy runs,
    and needs at least five of them. With `drop`, the rule is in breach if one run is outside the
    expected range. For `coverage`, write `jump` instead of `drop`. With `trend`, the rule is in
    breach if small changes of many runs add up to a lasting change."""
    watch: Literal["drift", "improvement"] = "drift"
    """The direction of change that is a breach. You can use this key only together with `learned`.
    `drift` means that the lists become less similar. `improvement` means that the lists become more
    similar than normal, which can also be a fault."""

    @property
    def limit(self) -> rules.Limit:
        """The learned limit if the rule has the key ``learned``, and otherwise the fixed limit."""
        if self.learned is None:
            return super().limit
        learning = rules.Learning.DROP  # for "drop" and for "jump", its name in coverage rules
        if self.learned == "trend":
            learning = rules.Learning.TREND
        # Values on this side of the limit are a breach.
        direction = self._drift_direction()
        if self.watch == "improvement":
            direction = direction.opposite
        # Until the rule has learned its limit, the end of the range on this side is shown.
        lowest, highest = self._range()
        value = highest if direction is rules.Direction.ABOVE else lowest
        return rules.LearnedLimit(learning=learning, direction=direction, value=value)

    def _drift_direction(self) -> rules.Direction:
        """Return how the judged value changes as the lists drift apart."""
        return rules.Direction.ABOVE

    def _range(self) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return 0.0, 1.0


def _fix_limit(
    direction: rules.Direction, value: float, resolve_at: float | None
) -> rules.FixedLimit:
    if resolve_at is None:
        resolve_at = value
    return rules.FixedLimit(direction=direction, value=value, resolve_at=resolve_at)


class MetricRuleOptions(_LearnedKeys, _BelowKeys):
    """A rule that judges a statistic of a metric."""

    key: ClassVar[str] = "metric"

    metric: JudgedMetricName | None = Field(default=None, examples=["rbo(p=0.9)"])
    """The metric to judge: one of the comparison's metrics M. With a noise floor, `floor(M)` and
    `over_floor(M)` are possible too. In an unpaired comparison, only `self_gap(M)`, `far_gap(M)`,
    `baseline_self(M)` and `candidate_self(M)` are possible. A rule may have `coverage`, `frozen` or
    `outcome` in place of a metric."""
    statistic: value_types.StatisticName = Field(
        default=rules.MEAN, examples=["mean", "p05", "share_below(0.3)"]
    )
    """The statistic to judge: `mean`, a percentile from `p01` to `p99`, or `share_below(x)`.
    `share_below(x)` is the share of users with a score below x."""

    def to_rule(self, k: int) -> rules.SimilarityRule:
        """Return the rule for lists of at most k items. The options must be valid."""
        # A valid rule has a metric.
        judged = cast("JudgedMetric", self.metric)
        # With the range of possible scores, a rule checks whether users without a score could
        # change the verdict. In an unpaired comparison, the rule cannot check this, because many
        # healthy users have no score.
        score_range = None
        if judged.derived_metric not in UNPAIRED_SERIES:
            score_range = judged.bounds(k)
        return rules.SimilarityRule(
            metric=str(judged),
            statistic=self.statistic,
            limit=self.limit,
            score_range=score_range,
            **self._common_fields,
        )

    def _drift_direction(self) -> rules.Direction:
        return drift_direction(str(self.metric), self.statistic)

    def _range(self) -> tuple[float, float]:
        if self.statistic.below is not None:
            return super()._range()  # share_below(x) is a share
        return cast("JudgedMetric", self.metric).bounds(None)


class CoverageRuleOptions(_LearnedKeys):
    """A rule that judges a share of users."""

    key: ClassVar[str] = "coverage"
    excluding: ClassVar[str] = "which is itself a share of users: remove this key or coverage"

    coverage: value_types.CoverageName = Field(
        examples=["missing", "failed(baseline)", "shared_list"]
    )
    """Use this key in place of `metric` to judge a share of users. By default, the rule looks at
    the candidate's lists. For the baseline's lists, write the arm in brackets: `failed(baseline)`.
    The first six of the following values are shares of all users whose lists the run requested.
    `missing` counts users without a list. `empty` counts users with an empty list. `short` counts
    users with a list of fewer than `k` items. `duplicated` counts users with an item twice in the
    list. `failed` counts users whose request failed. `unpaired` counts users that were not
    compared. In an unpaired comparison without `assignments`, `not_served` counts the users of the
    run that the other arm served. All other values are shares of the compared users. `shared_list` counts users with the
    arm's most common list. `unchanged_list` counts users with the same list as in the last run,
    although lists of other users changed. `exposure_jump` is the largest change of one item's share
    of the lists, or of the first places: (now - before)² / (now + before), minus 40 times the mean
    of this value over all other items. If the item is new or gone, the result is nearly the share
    of the lists that contain the item, or that contained it before. `shifted_list` counts users
    whose former first item is gone, or users whose first item is new, whichever number is larger.
    `replaced_list` counts users who kept fewer than one of five items. `top_turned` counts users
    whose first three items are the former ones in opposite order. `exposure_jump`, `shifted_list`,
    `replaced_list` and `top_turned` compare the lists with the last run before the firing alerts
    began. They and `unchanged_list` need stored lists. `top_reversed`
    counts users whose first three items are the same in both arms, but in mostly reversed order.
    `first_differs` counts users whose first item differs between the arms. `identical_list` counts
    users with the same list in both arms. `alike_list` counts users with nearly the same list.
    `interleaved_list` counts users whose list from the candidate looks as if another list and the
    baseline's list took turns in it."""

    def to_rule(self, k: int) -> rules.CoverageRule:  # noqa: ARG002 - other kinds need it
        """Return the rule. The options must be valid."""
        return rules.CoverageRule(share=self.coverage, limit=self.limit, **self._common_fields)

    @classmethod
    def _report_unknown(cls, key: str, path: KeyPath, problems: Problems) -> str | None:
        """See `Options`. Returns ``above`` for ``below``, so that no missing limit is reported."""
        meant = {"below": "above", "resolve_above": "resolve_below"}.get(key)
        if meant is None:
            return super()._report_unknown(key, path, problems)
        why = "does not go with coverage, whose shares rise as more lists are at fault"
        problems.add((*path, key), f"{why}: write {meant}")
        problems.add((*path, meant), None)
        return meant


class FrozenRuleOptions(RuleOptions):
    """A rule that judges how long the lists of an arm, or of both arms, stay the same."""

    key: ClassVar[str] = "frozen"
    excluding: ClassVar[str] = "which learns how often an arm's lists change: remove this key"

    frozen: Literal["baseline", "candidate", "both"] = Field(examples=["candidate"])
    """Use this key in place of `metric` to judge how long the lists of this arm stay the same. The
    rule is in breach if the lists have not changed for an unusually long time while the other arm's
    lists change. With `both`, the rule is in breach if neither arm's lists have changed for an
    unusually long time. Such a rule needs stored lists, so rankwatch stores lists."""

    def to_rule(self, k: int) -> rules.StandstillRule:  # noqa: ARG002 - other kinds need it
        """Return the rule. The options must be valid."""
        arm = None if self.frozen == rules.BOTH_ARMS else Arm(self.frozen)
        return rules.StandstillRule(arm=arm, **self._common_fields)


class OutcomeRuleOptions(_BelowKeys):
    """A rule that judges an outcome of an unpaired comparison, such as clicks."""

    key: ClassVar[str] = "outcome"
    excluding: ClassVar[str] = "which has one interval for all users of both arms: remove this key"

    outcome: str = Field(examples=["clicks"])
    """Use this key in place of `metric` to judge an outcome of an unpaired comparison. The outcome
    is a column that is listed under `unpaired.outcomes`. With `below: -0.02`, the rule is in breach
    if the candidate's outcome is surely more than 2 % lower than the baseline's. With `above:
    0.02`, the rule is in breach if the candidate's outcome is surely more than 2 % higher."""

    def to_rule(self, k: int) -> rules.SimilarityRule:  # noqa: ARG002 - other kinds need it
        """Return the rule. The options must be valid."""
        # In a breach, the whole confidence interval is beyond the limit. So the rule judges the end
        # of the interval that is closer to 0.
        end = DerivedMetric.OUTCOME_LOW
        if self.below is not None:
            end = DerivedMetric.OUTCOME_HIGH
        metric = end.of(self.outcome)
        return rules.SimilarityRule(metric=metric, limit=self.limit, **self._common_fields)


KINDS: tuple[type[RuleOptions], ...] = (
    OutcomeRuleOptions,
    FrozenRuleOptions,
    CoverageRuleOptions,
    MetricRuleOptions,
)
"""The kinds of rules. If a rule has keys of several kinds, the first one of these kinds counts."""


def _kind_of(data: object) -> type[RuleOptions]:
    """Return the class of options for this rule. The keys of the rule decide.

    If the rule has no key of a kind, such as ``metric``, a misspelled key decides.
    """
    if isinstance(data, RuleOptions):
        return type(data)
    keys = set(data) if isinstance(data, Mapping) else set()
    kinds = {kind.key: kind for kind in KINDS}
    if keys.isdisjoint(kinds):
        misspelled = keys.difference(RuleOptions.file_keys())
        keys = {nearest_word(key, kinds) for key in misspelled}
    return next((kind for key, kind in kinds.items() if key in keys), MetricRuleOptions)


def _name_of_kind(data: object) -> str:
    return _kind_of(data).__name__


class _OfAnyKind:
    """Marks the type of rules of any kind."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """The schema of a rule of any kind of `KINDS`, which `_kind_of` chooses."""
        # The name of a choice is in the path of its errors, and so must differ from keys of rules.
        choices = {kind.__name__: handler.generate_schema(kind) for kind in KINDS}
        return core_schema.tagged_union_schema(choices, _name_of_kind)


AnyRule = Annotated[RuleOptions, _OfAnyKind()]


def parse_rule(keys: Mapping[str, object]) -> RuleOptions:
    """Return the rule with these keys of the file."""
    return _kind_of(keys).model_validate(keys)


def _is_not_text(value: object) -> bool:
    return not isinstance(value, str)


RulesOrDefault = BeforeValidator(
    must(_is_not_text, "must be default, or a list of rules").func,
    json_schema_input_type=Literal["default"]
    | Annotated[tuple[AnyRule, ...], Field(max_length=200)],
)
"""A list of rules, or the word ``default``."""
