"""Options of one comparison: arms, users, metrics, rules, conditions, schedule and storage."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import ConfigDict, Field, PrivateAttr

from monitor.boundary.options import Duration, LabelName, Options
from monitor.boundary.options.one_of import OneOf
from monitor.boundary.options.problems import with_key_paths
from monitor.measures.arm_metrics import ARM_METRICS
from monitor.model.rules import UNPAIRED_CONDITIONS, Condition, ConditionRule, Keep, Severity
from monitor.settings import value_types
from monitor.settings.rule_options import AnyRule, RulesOrDefault
from monitor.settings.unpaired_options import UnpairedOptions
from monitor.sources import (
    ItemTitlesOptions,
    ItemWeightsOptions,
    RelevanceOptions,
    SourceOptions,
    UsersOptions,
)
from monitor.storage.score_files import ScoresToOptions

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
    """Whether and how to alert on a condition. Rules cannot judge drift in such runs."""

    policy: Literal["alert", "keep", "ignore"] = "alert"
    """With `alert`, rankwatch raises a separate alert for the condition, and alerts about drift
    keep their states. With `keep`, rankwatch raises no alert for the condition, and alerts about
    drift keep their states. With `ignore`, rankwatch raises no alert for the condition, and an
    alert about drift ends if it cannot be judged."""
    severity: Severity = Severity.WARNING
    """The severity of the alert."""
    runbook_url: value_types.PublicUrl | None = None
    """Web page with instructions for on-call."""


class ErrorOptions(ConditionOptions):
    """Runs that fail."""

    for_runs: value_types.RunCount = Field(default=2, alias="for")
    """How many consecutive runs must meet the condition before the alert fires."""


class NoDataOptions(ErrorOptions):
    """Runs that compared too few users, or that had no data for one of the rules."""

    segments: Literal["all", "named", "each"] = "named"
    """With `all`, rankwatch raises one alert for all users together. With `named`, rankwatch also
    raises an alert for each segment that a rule names or in which an alert is firing. With `each`,
    rankwatch raises an alert for every segment."""


class TooFewOptions(ErrorOptions):
    """Rules that had fewer users than their `min_users`."""

    segments: Literal["all", "each"] = "all"
    """With `all`, rankwatch raises one alert for all users together. With `each`, rankwatch raises
    an alert for each segment, including `all`."""

    for_runs: value_types.RunCount = Field(default=3, alias="for")
    """How many consecutive runs must meet the condition before the alert fires."""
    severity: Severity = Severity.INFO
    """The severity of the alert."""


class StaleOptions(ConditionOptions):
    """No run has succeeded for some time, because runs failed or never began."""

    after: value_types.RunCount = 3
    """The alert fires after this many consecutive scheduled runs without success. The daemon checks
    this condition, but `run-once` does not."""
    severity: Severity = Severity.CRITICAL
    """The severity of the alert."""


class SplitOffOptions(ConditionOptions):
    """The users of an unpaired comparison are not split between the arms as planned."""


class ArmsDifferedOptions(ErrorOptions):
    """The users of the two arms already got different lists before the test began."""


class ConditionsOptions(Options):
    """What rankwatch does while runs cannot be judged. Rules never learn from such runs."""

    error: ErrorOptions = Field(default_factory=ErrorOptions)
    """A run failed. The alert is `RunFailing`."""
    no_data: NoDataOptions = Field(default_factory=NoDataOptions)
    """Too few users could be compared, or there was no data for a rule. The alert is `NoData`."""
    too_few: TooFewOptions = Field(default_factory=TooFewOptions)
    """A rule had fewer users than its `min_users`. The alert is `TooFewUsers`."""
    stale: StaleOptions = Field(default_factory=StaleOptions)
    """No run has succeeded for some time. The alert is `Stale`."""
    split_off: SplitOffOptions = Field(default_factory=SplitOffOptions)
    """The users of an unpaired comparison are not divided between the arms in the planned
    proportions. The alert is `SplitOff`."""
    arms_differed: ArmsDifferedOptions = Field(default_factory=ArmsDifferedOptions)
    """In an unpaired comparison, the users of the two arms already got different lists before the
    test began. The alert is `ArmsDiffered`."""

    def with_defaults(self, defaults: Self) -> Self:
        """Return a copy in which ``defaults`` replaces the keys that are not set here."""
        conditions: dict[str, Any] = {}
        for condition, options in self._by_condition():
            default: ConditionOptions = getattr(defaults, condition)
            keys_set_here = options.model_dump(exclude_unset=True)
            conditions[condition] = default.model_copy(update=keys_set_here)
        return self.model_copy(update=conditions)

    @property
    def ignored(self) -> frozenset[Condition]:
        """The conditions with the policy `ignore`."""
        return frozenset(
            condition for condition, options in self._by_condition() if options.policy == "ignore"
        )

    def to_rules(self, *, is_unpaired: bool) -> tuple[ConditionRule, ...]:
        """Return a rule for each condition that has an alert and can occur in the comparison."""
        rules = []
        for condition, options in self._by_condition():
            is_possible = is_unpaired or condition not in UNPAIRED_CONDITIONS
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
    """Measures how similar two lists of the baseline are for the same user.

    The arms have drifted apart only if their lists differ more than two lists of the baseline do.
    Set exactly one of these keys.
    """

    serve: Literal[True] | None = None
    """With `true`, rankwatch requests a second list from the baseline at the same time. The second
    response must not come from a cache."""
    temporal: Literal[True] | None = None
    """With `true`, rankwatch compares the baseline's lists with the baseline's lists from the
    previous run, which rankwatch stores."""
    retrain: SourceOptions | None = None
    """With this key, rankwatch compares the baseline's lists with lists from a second training of
    the same model. Set this key to the source that contains the lists of the second training."""


_IGNORED = ConditionsOptions.model_validate(
    {condition: {"policy": "ignore"} for condition in Condition}
)
_WITHOUT_RULES = {"noise_floor": None, "rules": (), "default_rules": False, "conditions": _IGNORED}


class ComparisonOptions(Options):
    """One comparison: its two arms, its users, how to measure similarity, and when to alert."""

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
    _candidate_keys: tuple[str, ...] = PrivateAttr(default=())
    name: value_types.ComparisonName = Field(examples=["home-feed"])
    """The unique name of the comparison. The name appears in URLs and as a label of metrics."""
    description: str | None = Field(default=None, max_length=1000)
    """Free text."""
    every: Duration | None = None
    """The time between runs, counted from 1970-01-01 00:00 UTC. For example, `15m` starts runs at
    :00, :15, :30 and :45 of every hour."""
    offset: Duration | None = None
    """How long to delay each run, such as `20s`. Give comparisons different offsets so that they do
    not all start at the same moment. This key requires `every`."""
    cron: value_types.CronText | None = Field(
        default=None, examples=["*/15 * * * *", "30 6 * * mon-fri"]
    )
    """A schedule to use instead of `every`: minute, hour, day of month, month and weekday, as in
    crontab(5). Both 0 and 7 mean Sunday."""
    only_between: value_types.HoursText | None = Field(
        default=None, examples=["01:00-05:00", "22:00-06:00"]
    )
    """Runs begin only between these times of day, in the time zone that `timezone` sets. If the end
    is earlier than the start, the period continues past midnight. Outside these hours no run is
    due, and none is reported as missed. A delayed run does not begin outside these hours either,
    unless you start it with `run-once --slot`."""
    timezone: value_types.ZoneName = Field(default="UTC", examples=["Europe/Berlin"])
    """The time zone in which `cron`, `only_between` and `holidays` are read."""
    holidays: tuple[value_types.Days, ...] = Field(
        default=(), max_length=1000, examples=[["2026-12-24..2026-12-26", "2027-01-01"]]
    )
    """Days on which users behave differently from usual. Each entry is a single day, or a first and
    a last day. On these days, learning rules neither judge runs nor learn from them. If an alert of
    a learning rule is already firing, the alert keeps firing. Rules with a threshold and conditions
    are judged as on any other day."""
    k: int = Field(default=10, ge=1, le=10_000)
    """The length of the lists to compare."""
    # Every comparison that `by_candidate` yields has a baseline, a candidate and users.
    baseline: SourceOptions = cast("Any", None)
    """The source of the lists that users get today. Required unless `unpaired` is set."""
    candidate: SourceOptions = cast("Any", None)
    """The source of the candidate's lists, which are compared with the baseline's lists. Required
    unless `candidates` or `unpaired` is set."""
    candidates: Mapping[str, SourceOptions] = Field(
        default_factory=dict, min_length=1, max_length=20
    )
    """The sources of several candidates. You can also set `candidate`. Each candidate gets its own
    comparison: the key `b` creates the comparison `NAME.b`, with the same settings. In each slot,
    these comparisons request lists for the same users, and the baseline is usually read only once.
    If DuckDB joins the files of the arms, or Spark joins their tables, the baseline is read once
    for each comparison."""
    pairs: bool = False
    """Whether rankwatch also compares the `candidates` with each other, using the same lists. The
    comparison `NAME.b.c` compares `c` with `b`. rankwatch measures and shows this comparison, but
    no rule judges it."""
    users: UsersOptions = cast("Any", None)
    """The users whose lists rankwatch requests from both arms. Required unless `unpaired` is
    set."""
    unpaired: UnpairedOptions | None = None
    """With this key, rankwatch compares arms that serve different users, as in an A/B test. The key
    replaces `baseline`, `candidate` and `users`."""
    metrics: tuple[value_types.MetricName, ...] = Field(
        default=("extended_tau", "rbo(p=0.9)", "overlap"),
        min_length=1,
        max_length=50,
        examples=[["extended_tau", "rbo(p=0.9)", "overlap"]],
    )
    """The metrics that measure the similarity of two lists. Run `rankwatch metrics` to see all
    metrics. If a name contains a comma, put the name in quotes."""
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
    """The titles of items, which rankwatch shows next to their ids."""
    item_url: value_types.ItemUrl | None = Field(
        default=None, examples=["https://shop.example.com/items/{item}"]
    )
    """Link to an item in web pages and reports. `{item}` is the percent-encoded id of the item."""
    relevance: RelevanceOptions | None = None
    """The items that were relevant to users, for relevance metrics such as `ndcg`. The data may
    arrive days after the run. No rule judges relevance metrics."""
    noise_floor: NoiseFloorOptions | None = None
    """With this key, rankwatch measures the noise, which is how much two lists of the baseline
    differ for the same user. Rules can then use two additional metrics for each metric M.
    `floor(M)` is the similarity of two lists of the baseline. `over_floor(M)` is each user's
    excess: the distance between candidate and baseline, minus the distance between two lists of the
    baseline."""
    false_alarm_every: Duration = timedelta(days=90)
    """The accepted time between false alerts. On average, all learning rules of the comparison
    together raise at most one false alert in a period of this length."""
    rules: Annotated[tuple[AnyRule, ...], RulesOrDefault] = Field(default=(), max_length=200)
    """The rules that decide when to alert. `rules: default` means the same as `default_rules:
    true` without rules of your own."""
    default_rules: bool = False
    """Whether the default rules are added to `rules`. They learn what is normal, and so need no
    thresholds. A rule in `rules` replaces the default rule of the same name."""
    dry_run: bool = False
    """With `true`, rankwatch stores alerts but notifies nobody. A rule can override this value."""
    labels: Mapping[LabelName, str] = Field(
        default_factory=dict, examples=[{"owner": "ranking", "contact": "#recs-oncall"}]
    )
    """Additional labels for all alerts, which you can use in routes. If a rule sets a label of the
    same name, the rule's label applies. Messages show the labels `owner`, `team` and `contact`, so
    that the person on call knows whom to contact."""
    conditions: ConditionsOptions = Field(default_factory=ConditionsOptions)
    """What rankwatch does while runs of this comparison cannot be judged. A key that you set here
    overrides the same key in the top-level `conditions`."""
    group_for: Duration | None = None
    """An alert joins an incident if the alert begins no later than seven times this duration after
    the incident's first alert. The default is 1d, or three intervals of the comparison if these are
    longer than 1d."""
    deadline: Duration | None = None
    """The longest time that a run may take. The deadline must be shorter than the interval
    (default: 10m, but at most 0.8 of the interval)."""
    min_paired_share: float = Field(default=0.5, ge=0, le=1)
    """The smallest share of its users that a run must compare. A run that compares fewer users gets
    the status `insufficient`."""
    max_segment_values: int = Field(default=50, ge=1, le=1000)
    """The maximum number of segments for each dimension. If a dimension has more values, only its
    most frequent values become segments."""
    evidence_users: int = Field(default=10, ge=0, le=1000)
    """rankwatch stores both lists of some users as examples. There are several kinds of examples,
    such as the users with the least similar lists. This key sets the number of users of each
    kind."""
    keep_scores: value_types.KeepChoice = Keep.ALL
    """The users whose scores are stored. `all` or `true` means all compared users. `panel` means
    the fixed users of the sample. A number such as `1000` means this number of users, with the same
    users in every run. `none` or `false` means no users. Summaries, and the scores of example users
    (`evidence_users`), are always stored."""
    scores_to: ScoresToOptions | None = None
    """Where to write the scores of all compared users, regardless of `keep_scores`. Relevance
    scores are not written if the relevance data arrives after the run."""
    keep_lists: value_types.KeepChoice | None = None
    """The users whose lists are stored. The values have the same meaning as in `keep_scores`. To
    explain a change, rankwatch compares the stored lists with the lists of the next run. By
    default, rankwatch stores the lists of all users if relevance metrics, a temporal noise floor, a
    rule or an arm metric needs them."""
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    """Seed for the choice of users."""
    reference: str | None = Field(
        default=None, min_length=1, max_length=200, examples=["since release 42", "model_version"]
    )
    """Any text. Rules learn only from earlier runs in which this setting had the same text. If you
    set a new text, rules ignore all earlier runs and learn again from the next runs. In this way,
    you can make changed lists normal. With `model_version`, rules learn separately for each version
    of the arms' models."""

    @classmethod
    def _prepared(cls, data: Mapping[str, Any], _: str | None) -> Mapping[str, Any]:
        """Replace the key ``rules: default`` by ``default_rules: true``."""
        if data.get("rules") != "default":
            return data
        other_keys = {key: value for key, value in data.items() if key != "rules"}
        return with_key_paths({"default_rules": True, **other_keys}, data)

    @property
    def family(self) -> str:
        """The name in the file, without the keys of candidates that `name` may end with."""
        suffix = "".join(f".{key}" for key in self._candidate_keys)
        return self.name.removesuffix(suffix)

    @property
    def arms(self) -> tuple[str, str]:
        """The names of the two arms within the family."""
        if not self._candidate_keys:
            return "baseline", "candidate"
        # The last key names the candidate. If there are two keys, the first one names the baseline.
        names = [f"{self.family}.{key}" for key in self._candidate_keys]
        baseline = names[0] if len(names) > 1 else "baseline"
        return baseline, names[-1]

    def by_candidate(self) -> Iterator["ComparisonOptions"]:
        """Yield the comparisons that this entry of the file defines: one for each candidate.

        With ``pairs``, also yields one for each pair of ``candidates``. An entry with ``unpaired``
        defines one comparison, whose sources read the log of both arms.
        """
        if self.unpaired is not None:
            yield self.model_copy(update=self.unpaired.to_sources())
        if self.candidate is not None:
            yield self
        for key, source in self.candidates.items():
            yield self._named(key, candidate=source)
        if self.pairs:
            for first, second in combinations(self.candidates, 2):
                yield self._named(
                    first,
                    second,
                    baseline=self.candidates[first],
                    candidate=self.candidates[second],
                    **_WITHOUT_RULES,
                )

    def _named(self, *keys: str, **changes: object) -> Self:
        """Return a copy with these changes, whose name ends with these keys of candidates."""
        copy = self.model_copy(update={"name": ".".join((self.name, *keys)), **changes})
        copy._candidate_keys = keys  # noqa: SLF001 - a copy of these options
        return copy
