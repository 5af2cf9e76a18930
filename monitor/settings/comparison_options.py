"""Options of one comparison: arms, users, metrics, rules, conditions, schedule and storage."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import ConfigDict, Field, PrivateAttr

from monitor.boundary.options import Duration, LabelName, Options
from monitor.boundary.options.one_of import OneOf
from monitor.boundary.options.problems import placed
from monitor.measures.arm_metrics import ARM_METRICS
from monitor.model.rules import OF_UNPAIRED, Condition, ConditionRule, Keep, Severity
from monitor.settings import value_types
from monitor.settings.rule_options import RuleOptions, RulesOrDefault
from monitor.settings.unpaired_options import UnpairedOptions
from monitor.sources import (
    ItemTitlesOptions,
    ItemWeightsOptions,
    RelevanceOptions,
    SourceOptions,
    UsersOptions,
)
from monitor.storage.sinks import ScoresToOptions

# The names of the alerts for conditions. A rule with the same name replaces the alert.
CONDITION_ALERTS = {
    Condition.ERROR: "RunFailing",
    Condition.NO_DATA: "NoData",
    Condition.TOO_FEW: "TooFewUsers",
    Condition.STALE: "Stale",
    Condition.SPLIT_OFF: "SplitOff",
    Condition.ARMS_DIFFERED: "ArmsDiffered",
}


class ConditionOptions(Options):
    """The alert on a condition. While runs meet the condition, rules cannot judge drift."""

    policy: Literal["alert", "keep", "ignore"] = "alert"
    """`alert`: the condition has its own alert, and alerts on drift keep their states. `keep`: the
    condition has no alert, and alerts on drift keep their states. `ignore`: the condition has no
    alert, and an alert on drift ends if it cannot be judged."""
    severity: Severity = Severity.WARNING
    """Severity of the alert."""
    runbook_url: value_types.PublicUrl | None = None
    """Web page with instructions for on-call."""


class ErrorOptions(ConditionOptions):
    """Runs that fail."""

    for_runs: value_types.RunCount = Field(default=2, alias="for")
    """How many consecutive runs must meet the condition before the alert fires."""


class NoDataOptions(ErrorOptions):
    """Runs that compared too few users, or that had no data for a rule."""

    segments: Literal["all", "named", "each"] = "named"
    """`all`: there is one alert for all users together. `named`: there is also an alert for each
    segment that a rule names or in which an alert fires. `each`: there is an alert for every
    segment."""


class TooFewOptions(ErrorOptions):
    """Rules that had fewer users than their `min_users`."""

    segments: Literal["all", "each"] = "all"
    """`all`: there is one alert for all users together. `each`: there is an alert for each segment,
    including `all`."""

    for_runs: value_types.RunCount = Field(default=3, alias="for")
    """How many consecutive runs must meet the condition before the alert fires."""
    severity: Severity = Severity.INFO
    """Severity of the alert."""


class StaleOptions(ConditionOptions):
    """No run has succeeded for some time, because runs failed or never began."""

    after: value_types.RunCount = 3
    """The alert fires if this number of scheduled runs in a row did not succeed. Only the daemon
    checks this condition."""
    severity: Severity = Severity.CRITICAL
    """Severity of the alert."""


class SplitOffOptions(ConditionOptions):
    """The users of an unpaired comparison are not split as planned."""


class ArmsDifferedOptions(ErrorOptions):
    """The users of both arms got different lists before the test began."""


class ConditionsOptions(Options):
    """What happens while runs cannot be judged. Rules never learn from such runs."""

    error: ErrorOptions = Field(default_factory=ErrorOptions)
    """A run failed. The alert is `RunFailing`."""
    no_data: NoDataOptions = Field(default_factory=NoDataOptions)
    """Too few users were compared, or a rule had no data. The alert is `NoData`."""
    too_few: TooFewOptions = Field(default_factory=TooFewOptions)
    """A rule had fewer users than its `min_users`. The alert is `TooFewUsers`."""
    stale: StaleOptions = Field(default_factory=StaleOptions)
    """No run has succeeded for some time. The alert is `Stale`."""
    split_off: SplitOffOptions = Field(default_factory=SplitOffOptions)
    """The users of an unpaired comparison are not split as planned. The alert is `SplitOff`."""
    arms_differed: ArmsDifferedOptions = Field(default_factory=ArmsDifferedOptions)
    """The users of both arms of an unpaired comparison got different lists before the test began.
    The alert is `ArmsDiffered`."""

    def over(self, defaults: Self) -> Self:
        """Return a copy. A key that is not set here gets its value from ``defaults``."""
        merged: dict[str, Any] = {}
        for condition, options in self._by_condition():
            default: ConditionOptions = getattr(defaults, condition)
            keys_set_here = options.model_dump(exclude_unset=True)
            merged[condition] = default.model_copy(update=keys_set_here)
        return self.model_copy(update=merged)

    @property
    def ignored(self) -> frozenset[Condition]:
        """The conditions with the policy `ignore`."""
        return frozenset(
            condition for condition, each in self._by_condition() if each.policy == "ignore"
        )

    def to_rules(self, *, is_unpaired: bool) -> tuple[ConditionRule, ...]:
        """Return a rule for each condition that has an alert and can occur in the comparison."""
        rules = []
        for condition, options in self._by_condition():
            is_possible = is_unpaired or condition not in OF_UNPAIRED
            if options.policy == "alert" and is_possible:
                # `error` and `stale` have no `segments`, because they are about all users. `stale`
                # has no `for`, because it has `after`.
                rule = ConditionRule(
                    alert=CONDITION_ALERTS[condition],
                    condition=condition,
                    segments=getattr(options, "segments", "all"),
                    for_runs=getattr(options, "for_runs", 1),
                    severity=options.severity,
                    runbook_url=options.runbook_url,
                )
                rules.append(rule)
        return tuple(rules)

    def _by_condition(self) -> Iterator[tuple[Condition, ConditionOptions]]:
        return ((condition, getattr(self, condition)) for condition in Condition)


class NoiseFloorOptions(OneOf):
    """How similar two lists of the baseline are for the same user.

    Only a larger difference between the arms is drift. Set exactly one of these keys.
    """

    serve: Literal[True] | None = None
    """Asks the baseline for a second answer at the same time, which must not come from a cache."""
    temporal: Literal[True] | None = None
    """Compares the baseline's lists with the baseline's lists of the last run, which rankwatch
    stores."""
    retrain: SourceOptions | None = None
    """Compares the baseline's lists with the lists of a second training of its model. The value is
    the source of the second training's lists."""


_IGNORED = ConditionsOptions.model_validate(
    {condition: {"policy": "ignore"} for condition in Condition}
)
_UNJUDGED = {"noise_floor": None, "rules": (), "default_rules": False, "conditions": _IGNORED}


class ComparisonOptions(Options):
    """One comparison: two arms, the users, how similarity is measured, and when to alert."""

    stays_partial: ClassVar[bool] = True
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["every"]}, {"required": ["cron"]}],
            "anyOf": [
                {"required": ["baseline", "users", "candidate"]},
                {"required": ["baseline", "users", "candidates"]},
                {"required": ["unpaired"]},
            ],
        }
    )

    # The keys of `candidates` that this comparison compares: none, one, or a pair.
    _keys: tuple[str, ...] = PrivateAttr(default=())
    name: value_types.ComparisonName = Field(examples=["home-feed"])
    """Unique name of the comparison, which is a label of metrics and a part of URLs."""
    description: str | None = Field(default=None, max_length=1000)
    """Free text."""
    every: Duration | None = None
    """Time between runs, counted from 1970-01-01 00:00 UTC. With `15m` runs take place at :00, :15,
    :30 and :45."""
    offset: Duration | None = None
    """Delay of each run, such as `20s`. With different offsets, comparisons do not all run at the
    same moment. This key needs `every`."""
    cron: value_types.CronText | None = Field(
        default=None, examples=["*/15 * * * *", "30 6 * * mon-fri"]
    )
    """Replaces `every`. Minute, hour, day of month, month and weekday, as in crontab(5). The
    weekdays 0 and 7 are Sunday."""
    only_between: value_types.HoursText | None = Field(
        default=None, examples=["01:00-05:00", "22:00-06:00"]
    )
    """Runs begin only in these hours of the day, in the time zone of `timezone`. If the end is
    earlier than the start, the period goes past midnight. Outside these hours no run is due, and
    none is reported as missed. A late run does not begin outside these hours, except with `run-once
    --slot`."""
    timezone: value_types.ZoneName = Field(default="UTC", examples=["Europe/Berlin"])
    """Time zone of `cron`, `only_between` and `holidays`."""
    holidays: tuple[value_types.Days, ...] = Field(
        default=(), max_length=1000, examples=[["2026-12-24..2026-12-26", "2027-01-01"]]
    )
    """Days on which users behave differently. An entry is one day, or a first and a last day. Rules
    that learn do not judge runs of these days, and do not learn from them. Firing alerts of these
    rules continue. Rules with a threshold and conditions are judged as usual."""
    k: int = Field(default=10, ge=1, le=10_000)
    """Length of the lists that are compared."""
    # Every comparison that `by_candidate` yields has a baseline, a candidate and users.
    baseline: SourceOptions = cast("Any", None)
    """The source of the lists that users get today. Required unless there is `unpaired`."""
    candidate: SourceOptions = cast("Any", None)
    """The source of the candidate's lists, which are compared with the baseline's lists. Required
    unless there are `candidates` or `unpaired`."""
    candidates: Mapping[str, SourceOptions] = Field(
        default_factory=dict, min_length=1, max_length=20
    )
    """Sources of several candidates. You may set `candidate` too. Each candidate becomes a
    comparison: the key `b` becomes the comparison `NAME.b`, with the same settings. In each slot
    these comparisons ask for the same users, and the baseline is read once. If DuckDB joins files,
    or Spark joins tables, the baseline is read again for each comparison."""
    pairs: bool = False
    """Whether the `candidates` are also compared with each other, by the same lists. The comparison
    `NAME.b.c` compares `c` with `b`. This comparison is measured and shown, but no rule judges
    it."""
    users: UsersOptions = cast("Any", None)
    """The users that both arms are asked for. Required unless there is `unpaired`."""
    unpaired: UnpairedOptions | None = None
    """Compares arms that serve different users, as in an A/B test. This key replaces `baseline`,
    `candidate` and `users`."""
    metrics: tuple[value_types.MetricName, ...] = Field(
        default=("extended_tau", "rbo(p=0.9)", "overlap"),
        min_length=1,
        max_length=50,
        examples=[["extended_tau", "rbo(p=0.9)", "overlap"]],
    )
    """How the similarity of two lists is measured. `rankwatch metrics` lists the metrics. If a name
    contains a comma, put the name in quotes."""
    arm_metrics: tuple[value_types.ArmMetricName, ...] = Field(
        default=("catalogue_coverage", "exposure_gini", "exposure_entropy"),
        max_length=50,
        description="Metrics of each arm over all its lists: "
        f"{', '.join(map('`{}`'.format, ARM_METRICS))}.",
    )
    catalogue_size: int | None = Field(default=None, ge=1, le=10**12)
    """The number of items that could be recommended (default: the number of different items in the
    lists of both arms)."""
    item_weights: ItemWeightsOptions | None = None
    """Weights of items, such as popularity or price, for metrics that need them."""
    item_titles: ItemTitlesOptions | None = None
    """Titles of items, which are shown next to the ids."""
    item_url: value_types.ItemUrl | None = Field(
        default=None, examples=["https://shop.example.com/items/{item}"]
    )
    """Link to an item in web pages and reports. `{item}` is the percent-encoded id of the item."""
    relevance: RelevanceOptions | None = None
    """Items that were relevant to users, for metrics of relevance such as `ndcg`. The data may
    arrive days after the run. No rule judges metrics of relevance."""
    noise_floor: NoiseFloorOptions | None = None
    """Measures the noise: how similar two lists of the baseline are for the same user. Rules can
    then use two more metrics for each metric M. `floor(M)` is the similarity of two lists of the
    baseline. `over_floor(M)` is the excess of each user: the distance of the candidate from the
    baseline, minus the distance between two lists of the baseline."""
    false_alarm_every: Duration = timedelta(days=90)
    """All learning rules of the comparison together cause on average at most one false alert in
    this time."""
    rules: Annotated[tuple[RuleOptions, ...], RulesOrDefault] = Field(default=(), max_length=200)
    """When to alert. `rules: default` adds the default rules, which learn what is normal and
    need no thresholds."""
    default_rules: bool = False
    """Whether the default rules are added to `rules`. A rule in `rules` replaces the default rule
    of the same name."""
    dry_run: bool = False
    """With `true`, alerts are stored but nobody is notified. A rule may set another value."""
    labels: Mapping[LabelName, str] = Field(
        default_factory=dict, examples=[{"owner": "ranking", "contact": "#recs-oncall"}]
    )
    """Further labels of all alerts, for routing. A label of a rule replaces the label of the same
    name. Messages show the labels `owner`, `team` and `contact`, so that on-call knows whom to
    call."""
    conditions: ConditionsOptions = Field(default_factory=ConditionsOptions)
    """What happens while runs cannot be judged. Each key that is set here overrides the same key of
    the top-level `conditions`."""
    group_for: Duration | None = None
    """An alert joins an incident if it begins at most seven times this duration after the
    incident's first alert. The default is 1d, or three intervals of the comparison if these are
    longer than 1d."""
    deadline: Duration | None = None
    """Longest time for one run. The deadline must be shorter than the interval (default: 10m,
    but at most 0.8 of the interval)."""
    min_paired_share: float = Field(default=0.5, ge=0, le=1)
    """If a run compares a smaller share of its users than this, the run has the status
    `insufficient`."""
    max_segment_values: int = Field(default=50, ge=1, le=1000)
    """The largest number of segments for one dimension. If a dimension has more values, its most
    frequent values become segments."""
    evidence_users: int = Field(default=10, ge=0, le=1000)
    """The number of example users of each kind, whose lists are stored. One kind is the users with
    the least similar lists."""
    keep_scores: value_types.KeepChoice = Keep.ALL
    """The users whose scores are stored. `all` or `true` means all compared users. `panel` means
    the fixed users of the sample. The number `1000` means 1,000 users, the same in each run. `none`
    or `false` means no users. Summaries, and the scores of example users (`evidence_users`), are
    always stored."""
    scores_to: ScoresToOptions | None = None
    """Where the scores of all compared users are written, whatever `keep_scores` is. Scores of
    relevance metrics are not written if relevance arrives after the run."""
    keep_lists: value_types.KeepChoice | None = None
    """The users whose lists are stored. The values have the same meaning as in `keep_scores`.
    Explanations compare stored lists with the lists of the next run. By default rankwatch stores
    the lists of all users if relevance, a temporal noise floor, a rule or an arm metric needs
    them."""
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    """Seed for the choice of users."""
    reference: str | None = Field(
        default=None, min_length=1, max_length=200, examples=["since release 42", "model_version"]
    )
    """Any text. Rules learn only from runs with the same text, so a new text makes changed lists
    normal. With `model_version`, rules learn separately for each version of the arms' models."""

    @classmethod
    def _prepared(cls, data: Mapping[str, Any], _: str | None) -> Mapping[str, Any]:
        if data.get("rules") != "default":
            return data
        others = {key: value for key, value in data.items() if key != "rules"}
        return placed({"default_rules": True, **others}, data)

    @property
    def family(self) -> str:
        """The name in the file. All comparisons that one entry defines have it in common."""
        suffix = "".join(f".{key}" for key in self._keys)
        return self.name.removesuffix(suffix)

    @property
    def arms(self) -> tuple[str, str]:
        """The names of the two arms within the family."""
        if not self._keys:
            return "baseline", "candidate"
        # One key names the candidate. Of two keys, the first one names the baseline.
        names = [f"{self.family}.{key}" for key in self._keys]
        baseline = names[0] if len(names) > 1 else "baseline"
        return baseline, names[-1]

    def by_candidate(self) -> Iterator["ComparisonOptions"]:
        """Yield the comparisons that this entry of the file defines: one for each candidate.

        With ``pairs`` there is also one for each pair of ``candidates``. An unpaired comparison is
        the only one of its entry, and gets the sources that it makes from its log.
        """
        if self.unpaired is not None:
            yield self.model_copy(update=self.unpaired.to_sources())
        if self.candidate is not None:
            yield self
        for key, source in self.candidates.items():
            yield self._named(key, candidate=source)
        if self.pairs:
            for (key, first), (other, second) in combinations(self.candidates.items(), 2):
                yield self._named(key, other, baseline=first, candidate=second, **_UNJUDGED)

    def _named(self, *keys: str, **changes: object) -> Self:
        """Return a copy whose name ends with the keys of its candidates."""
        copy = self.model_copy(update={"name": ".".join((self.name, *keys)), **changes})
        copy._keys = keys  # noqa: SLF001 - a copy of these options
        return copy
