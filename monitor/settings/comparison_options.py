"""Options of one comparison: its arms, users, metrics, rules, conditions and schedule, and what it keeps."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import combinations
from typing import Annotated, Any, Literal, Self, cast

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from monitor.arm_metrics import ARM_METRICS
from monitor.model.comparison import Keep
from monitor.model.rules import Condition, ConditionRule, Severity
from monitor.options import Duration, OneOf, Options
from monitor.settings import value_types
from monitor.settings.rule_options import RuleOptions, RulesOrDefault
from monitor.sinks import ScoresToOptions
from monitor.sources import (
    ItemTitlesOptions,
    ItemWeightsOptions,
    RelevanceOptions,
    SourceOptions,
    UsersOptions,
)

# Names of the alerts; a rule of the same name takes the place of one.
CONDITION_ALERTS = {
    Condition.ERROR: "RunFailing",
    Condition.NO_DATA: "NoData",
    Condition.TOO_FEW: "TooFewUsers",
    Condition.STALE: "Stale",
}


class ConditionOptions(Options):
    """What happens to alerts under one condition, and whether it has an alert of its own."""

    policy: Literal["alert", "keep", "ignore"] = Field(
        default="alert",
        description="`alert`: alerts on drift stay as they are, and the condition has an alert of "
        "its own. `keep`: they stay, without such an alert. `ignore`: without it, "
        "too, and alerts that cannot be judged end as not seen to recover.",
    )
    severity: Severity = Field(default=Severity.WARNING, description="Severity of the alert.")
    runbook_url: value_types.PublicUrl | None = Field(
        default=None, description="Page that tells on-call what to do."
    )


class ErrorOptions(ConditionOptions):
    """Runs that fail."""

    for_runs: value_types.RunCount = Field(
        default=2, alias="for", description="Consecutive runs before the alert fires."
    )


class NoDataOptions(ErrorOptions):
    """Runs that compared too few users to be judged, as a whole or by a rule."""

    segments: Literal["all", "named", "each"] = Field(
        default="named",
        description="One alert for `all` users together. With `named` also one for each segment "
        "that a rule names, or in which an alert fires. With `each` one for every "
        "segment.",
    )


class TooFewOptions(ErrorOptions):
    """Rules that had fewer users than their `min_users`."""

    segments: Literal["all", "each"] = Field(
        default="all",
        description=(
            "One alert for `all` users together, or one for `each` segment (`all` included)."
        ),
    )

    for_runs: value_types.RunCount = Field(
        default=3, alias="for", description="Consecutive runs before the alert fires."
    )
    severity: Severity = Field(default=Severity.INFO, description="Severity of the alert.")


class StaleOptions(ConditionOptions):
    """No run succeeded for a while, whether runs failed or never began."""

    after: value_types.RunCount = Field(
        default=3,
        description=(
            "Consecutive runs that were due and did not succeed before the alert fires; "
            "only the daemon notices."
        ),
    )
    severity: Severity = Field(default=Severity.CRITICAL, description="Severity of the alert.")


class ConditionsOptions(Options):
    """What happens while runs cannot be judged. Such runs never count as healthy."""

    error: ErrorOptions = Field(
        default_factory=ErrorOptions, description="A run failed. Its alert is `RunFailing`."
    )
    no_data: NoDataOptions = Field(
        default_factory=NoDataOptions,
        description="Too few users were compared, or a rule had no data. Its alert is `NoData`.",
    )
    too_few: TooFewOptions = Field(
        default_factory=TooFewOptions,
        description="A rule had fewer users than its `min_users`. Its alert is `TooFewUsers`.",
    )
    stale: StaleOptions = Field(
        default_factory=StaleOptions, description="No run succeeds. Its alert is `Stale`."
    )

    def over(self, defaults: Self) -> Self:
        """These where they are given, key by key, else the defaults."""
        given = {
            name: getattr(defaults, name).model_copy(update=own.model_dump(exclude_unset=True))
            for name, own in self._by_condition()
        }
        return self.model_validate(given)

    @property
    def ignored(self) -> frozenset[Condition]:
        """Conditions under which no alert waits for a verdict."""
        return frozenset(
            condition for condition, each in self._by_condition() if each.policy == "ignore"
        )

    def to_rules(self) -> tuple[ConditionRule, ...]:
        """One rule for each condition that is told."""
        return tuple(
            ConditionRule(
                alert=CONDITION_ALERTS[condition],
                condition=condition,
                segments=each.segments
                if isinstance(each, NoDataOptions | TooFewOptions)
                else "all",
                for_runs=each.for_runs if isinstance(each, ErrorOptions) else 1,
                severity=each.severity,
                runbook_url=each.runbook_url,
            )
            for condition, each in self._by_condition()
            if each.policy == "alert"
        )

    def _by_condition(self) -> Iterator[tuple[Condition, ConditionOptions]]:
        return ((condition, getattr(self, condition)) for condition in Condition)


class NoiseFloorOptions(OneOf):
    """How similar the baseline is to itself, to separate drift from noise. Exactly one of these."""

    serve: Literal[True] | None = Field(
        default=None, description="The baseline is asked twice at the same moment, past caches."
    )
    temporal: Literal[True] | None = Field(
        default=None,
        description=(
            "The baseline is compared with its own lists of the last run, which are kept for this."
        ),
    )
    retrain: SourceOptions | None = Field(
        default=None,
        description=(
            "The baseline is compared with a second training of its model: where those "
            "lists come from."
        ),
    )


_IGNORED = ConditionsOptions.model_validate(
    {condition: {"policy": "ignore"} for condition in Condition}
)
_UNJUDGED = {"noise_floor": None, "rules": (), "default_rules": False, "conditions": _IGNORED}


class ComparisonOptions(Options):
    """One comparison: two arms, the users both are asked for, how similarity is measured, and when to alert."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["every"]}, {"required": ["cron"]}],
            "anyOf": [{"required": ["candidate"]}, {"required": ["candidates"]}],
        }
    )

    _keys: tuple[str, ...] = PrivateAttr(default=())
    name: value_types.ComparisonName = Field(
        description="Unique name; a metric label and part of URLs.", examples=["home-feed"]
    )
    description: str | None = Field(default=None, max_length=1000, description="Free text.")
    every: Duration | None = Field(
        default=None,
        description=(
            "Time between runs, counted from 1970-01-01 00:00 UTC: `15m` runs at :00, "
            ":15, :30, :45."
        ),
    )
    offset: Duration | None = Field(
        default=None,
        description="How much later each run of `every` is, such as `20s`. Different ones spread "
        "many comparisons over the interval.",
    )
    cron: value_types.CronText | None = Field(
        default=None,
        description=(
            "Instead of `every`: minute, hour, day, month, weekday as in crontab(5); 0 "
            "and 7 are Sunday."
        ),
        examples=["*/15 * * * *", "30 6 * * mon-fri"],
    )
    only_between: value_types.HoursText | None = Field(
        default=None,
        description="Hours of the day, in `timezone`, in which runs may begin; across midnight "
        "where the end is earlier. Slots at other times are not due: none is missed; "
        "neither a late daemon nor `run-once` without `--slot` begins one then.",
        examples=["01:00-05:00", "22:00-06:00"],
    )
    timezone: value_types.ZoneName = Field(
        default="UTC",
        description="Time zone of `cron`, `only_between` and `holidays`.",
        examples=["Europe/Berlin"],
    )
    holidays: tuple[value_types.DaysText, ...] = Field(
        default=(),
        max_length=1000,
        description="Days, or first and last days, on which users are not as usual: rules that "
        "learn neither judge runs of these days nor learn from them, and what fires "
        "goes on. Thresholds and conditions hold.",
        examples=[["2026-12-24..2026-12-26", "2027-01-01"]],
    )
    k: int = Field(
        default=10, ge=1, le=10_000, description="Length of the lists that are compared."
    )
    baseline: SourceOptions = Field(description="Where the lists in use come from.")
    candidate: SourceOptions = Field(
        default=cast("Any", None),  # each comparison that is run has one: see `by_candidate`
        description="Where the lists on trial come from; required unless there are `candidates`.",
    )
    candidates: Mapping[str, SourceOptions] = Field(
        default_factory=dict,
        min_length=1,
        max_length=20,
        description="Several candidates, beside `candidate` or in its place: where the lists of "
        "each come from. `b` is a comparison of its own, `NAME.b`, with all other "
        "settings of this one. In a slot they share users and one pull of the "
        "baseline; lists that are joined where they lie (files, Spark) are read anew.",
    )
    pairs: bool = Field(
        default=False,
        description="Whether `candidates` are compared with each other too, from the same lists: "
        "`NAME.b.c` holds `c` against `b`, is measured and shown like the others, and "
        "judged by no rule.",
    )
    users: UsersOptions = Field(description="The users that both arms are asked for.")
    metrics: tuple[value_types.MetricName, ...] = Field(
        default=("extended_tau", "rbo(p=0.9)", "overlap"),
        min_length=1,
        max_length=50,
        description=(
            "Measures of how similar two lists are; `rankwatch metrics` lists them. "
            "Quote a name that has a comma."
        ),
        examples=[["extended_tau", "rbo(p=0.9)", "overlap"]],
    )
    arm_metrics: tuple[value_types.ArmMetricName, ...] = Field(
        default=("catalogue_coverage", "exposure_gini", "exposure_entropy"),
        max_length=50,
        description=(
            "Measures of each arm over all its lists: "
            f"{', '.join(f'`{name}`' for name in ARM_METRICS)}."
        ),
    )
    catalogue_size: int | None = Field(
        default=None,
        ge=1,
        le=10**12,
        description="Items that could be listed (default: as many as either arm lists).",
    )
    item_weights: ItemWeightsOptions | None = Field(
        default=None,
        description="Weights of items, such as popularity or price, for metrics that need them.",
    )
    item_titles: ItemTitlesOptions | None = Field(
        default=None,
        description=(
            "Titles of items, wherever lists and items are shown: ids stand there without them."
        ),
    )
    item_url: value_types.ItemUrl | None = Field(
        default=None,
        description=(
            "Page of an item, to which pages and reports link: `{item}` is its id, percent-encoded."
        ),
        examples=["https://shop.example.com/items/{item}"],
    )
    relevance: RelevanceOptions | None = Field(
        default=None,
        description=(
            "What users found relevant, for metrics that need it. It may arrive days "
            "later; no rule judges it."
        ),
    )
    noise_floor: NoiseFloorOptions | None = Field(
        default=None,
        description="Measures how similar the baseline is to itself, so that rules can use two "
        "more metrics for each metric M: `floor(M)`, and `over_floor(M)`, how much "
        "farther the candidate is from the baseline, user by user.",
    )
    false_alarm_every: Duration = Field(
        default=timedelta(days=90),
        description="Accepted time between two false alarms, of all rules that learn together.",
    )
    rules: Annotated[tuple[RuleOptions, ...], RulesOrDefault] = Field(
        default=(),
        max_length=200,
        description=(
            "When to alert; or the word `default`, the rules that learn what is normal "
            "and need no thresholds."
        ),
    )
    default_rules: bool = Field(
        default=False,
        description=(
            "Whether the default rules are added to `rules`, which replace those of the same name."
        ),
    )
    dry_run: bool = Field(
        default=False,
        description="Whether alerts are recorded without notifying anybody; a rule may override it.",
    )
    conditions: ConditionsOptions = Field(
        default_factory=ConditionsOptions,
        description=(
            "What happens while runs cannot be judged; overrides the top-level "
            "`conditions` key by key."
        ),
    )
    group_for: Duration | None = Field(
        default=None,
        description="Alerts join an incident for seven times as long after its first one "
        "(default: 1d, or three intervals where longer).",
    )
    deadline: Duration | None = Field(
        default=None,
        description=(
            "Longest time for one run, shorter than the interval (default: 10m, at most "
            "0.8 of the interval)."
        ),
    )
    min_paired_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="A run that compares a smaller share of its users is `insufficient`.",
    )
    max_segment_values: int = Field(
        default=50,
        ge=1,
        le=1000,
        description="Most values kept of one segment dimension: the most frequent ones.",
    )
    evidence_users: int = Field(
        default=10, ge=0, le=1000, description="Example users of each kind whose lists are kept."
    )
    keep_scores: value_types.KeepChoice = Field(
        default=Keep.ALL,
        description="Whose scores are stored, not only their summaries: those of `all` compared "
        "users, of the `panel` (the fixed users of the sample), of so many users, the "
        "same in each run, or of `none`; `true` means all, `false` none. Example "
        "users (`evidence_users`) are kept in any case.",
    )
    scores_to: ScoresToOptions | None = Field(
        default=None,
        description="Where the scores of all compared users are written, whatever `keep_scores` "
        "leaves in the database. Measures of relevance that arrives after the run are "
        "not among them.",
    )
    keep_lists: value_types.KeepChoice | None = Field(
        default=None,
        description="Whose lists are stored, as in `keep_scores`: those that explanations hold "
        "the next run's against (default: of all users if relevance, a temporal noise "
        "floor or an arm metric needs them, else of none).",
    )
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="Seed of the users drawn.")
    reference: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="A name for what is normal. Change it to accept a change: rules then learn "
        "anew from the runs to come. With `model_version` each version of the arms' "
        "models has a normal of its own.",
        examples=["since release 42", "model_version"],
    )

    @model_validator(mode="before")
    @classmethod
    def _read_default_rules(cls, data: Any) -> Any:  # noqa: ANN401 - raw input is anything
        if not isinstance(data, Mapping) or data.get("rules") != "default":
            return data
        return {
            "default_rules": True,
            **{key: value for key, value in data.items() if key != "rules"},
        }

    @property
    def family(self) -> str:
        """The name in the file, which the comparisons of several candidates have in common."""
        return self.name.removesuffix("".join(f".{key}" for key in self._keys))

    @property
    def arms(self) -> tuple[str, str]:
        """What the arms are called among all of the family."""
        *_, first, second = (
            "baseline",
            *([f"{self.family}.{key}" for key in self._keys] or ["candidate"]),
        )
        return first, second

    def by_candidate(self) -> Iterator["ComparisonOptions"]:
        """A comparison for each candidate, and for each pair of them where that is wanted."""
        if self.candidate is not None:
            yield self
        for key, source in self.candidates.items():
            yield self._named(key, candidate=source)
        for (key, first), (other, second) in (
            combinations(self.candidates.items(), 2) if self.pairs else ()
        ):
            yield self._named(key, other, baseline=first, candidate=second, **_UNJUDGED)

    def _named(self, *keys: str, **changes: object) -> Self:
        found = self.model_copy(update={"name": ".".join((self.name, *keys)), **changes})
        found._keys = keys  # noqa: SLF001 - a copy of these
        return found
