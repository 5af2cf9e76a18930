"""Options of the conditions under which runs cannot be judged, and the rules that alert on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from monitor.model import Condition, ConditionRule, Severity
from monitor.options import Options
from monitor.settings.value_types import PublicUrl, RunCount

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
        description="`alert`: alerts on drift stay as they are, and the condition has an alert of its own. `keep`: they stay, "
        "without such an alert. `ignore`: without it, too, and alerts that cannot be judged end as not seen to recover.",
    )
    severity: Severity = Field(default=Severity.WARNING, description="Severity of the alert.")
    runbook_url: PublicUrl | None = Field(default=None, description="Page that tells on-call what to do.")


class ErrorOptions(ConditionOptions):
    """Runs that fail."""

    for_runs: RunCount = Field(default=2, alias="for", description="Consecutive runs before the alert fires.")


class NoDataOptions(ErrorOptions):
    """Runs that compared too few users to be judged, as a whole or by a rule."""

    segments: Literal["all", "each"] = Field(
        default="all", description="One alert for `all` users together, or one for `each` segment (`all` included)."
    )


class TooFewOptions(NoDataOptions):
    """Rules that had fewer users than their `min_users`."""

    for_runs: RunCount = Field(default=3, alias="for", description="Consecutive runs before the alert fires.")
    severity: Severity = Field(default=Severity.INFO, description="Severity of the alert.")


class StaleOptions(ConditionOptions):
    """No run succeeded for a while, whether runs failed or never began."""

    after: RunCount = Field(
        default=3,
        description="Consecutive runs that were due and did not succeed before the alert fires; only the daemon notices.",
    )
    severity: Severity = Field(default=Severity.CRITICAL, description="Severity of the alert.")


class ConditionsOptions(Options):
    """What happens while runs cannot be judged. Such runs never count as healthy."""

    error: ErrorOptions = Field(default_factory=ErrorOptions, description="A run failed. Its alert is `RunFailing`.")
    no_data: NoDataOptions = Field(
        default_factory=NoDataOptions, description="Too few users were compared, or a rule had no data. Its alert is `NoData`."
    )
    too_few: TooFewOptions = Field(
        default_factory=TooFewOptions, description="A rule had fewer users than its `min_users`. Its alert is `TooFewUsers`."
    )
    stale: StaleOptions = Field(default_factory=StaleOptions, description="No run succeeds. Its alert is `Stale`.")

    def over(self, defaults: ConditionsOptions) -> ConditionsOptions:
        """These where they are given, key by key, else the defaults."""
        given = {
            name: getattr(defaults, name).model_copy(update={key: getattr(own, key) for key in own.model_fields_set})
            for name, own in self._by_condition()
        }
        return ConditionsOptions.model_validate(given)

    @property
    def ignored(self) -> frozenset[Condition]:
        """Conditions under which no alert waits for a verdict."""
        return frozenset(condition for condition, each in self._by_condition() if each.policy == "ignore")

    def to_rules(self) -> tuple[ConditionRule, ...]:
        """One rule for each condition that is told."""
        return tuple(
            ConditionRule(
                alert=CONDITION_ALERTS[condition],
                condition=condition,
                segments=each.segments if isinstance(each, NoDataOptions) else "all",
                for_runs=each.for_runs if isinstance(each, ErrorOptions) else 1,
                severity=each.severity,
                runbook_url=each.runbook_url,
            )
            for condition, each in self._by_condition()
            if each.policy == "alert"
        )

    def _by_condition(self) -> Iterator[tuple[Condition, ConditionOptions]]:
        return ((condition, getattr(self, condition)) for condition in Condition)
