"""Routes, fallbacks, maintenance, dry runs and conditions of a configuration, as the policy and the rules that they make."""

from datetime import UTC, datetime, timedelta

from monitor.model.rules import Condition, ConditionRule, RuleKind, Severity
from monitor.settings.translation import policy_of, to_comparison
from settings.minimal import MINIMAL, comparison_of, load_text
from tables import rows

NOTIFICATION = """
receivers:
  - webhook: {url: "http://127.0.0.1:1/x", name: hook}
  - alertmanager: {urls: ["http://127.0.0.1:2", "http://127.0.0.1:3"], name: am}
routes:
  - {match: [severity=critical, "comparison=~f.*"], receivers: [am], continue: true}
  - {receivers: [hook]}
fallbacks: {am: hook}
maintenance:
  - {name: retraining, match: [comparison=feed], cron: "0 2 * * *", timezone: Europe/Berlin, for: 2h}
"""


def test_a_shared_name_stands_for_every_peer():
    policy = policy_of(load_text(MINIMAL + NOTIFICATION))

    first, second = policy.routes
    assert (set(first.receivers), first.goes_on) == ({"am-0", "am-1"}, True)
    assert set(second.receivers) == {"hook"}
    assert [str(matcher) for matcher in first.match] == ["severity=critical", "comparison=~f.*"]
    assert policy.fallbacks == {"am-0": "hook", "am-1": "hook"}


def test_a_maintenance_window_is_open_from_its_slot_for_as_long_as_it_lasts():
    for hour, is_open in [(0, False), (1, True), (2, True), (3, False)]:
        (window,) = policy_of(load_text(MINIMAL + NOTIFICATION)).windows
        now = datetime(
            2024, 1, 8, hour, 30, tzinfo=UTC
        )  # half an hour past the full hour after that in Berlin

        assert window.ends_at(now) == (
            now.replace(hour=1, minute=0) + timedelta(hours=2) if is_open else None
        )


def of_conditions(what):
    return {
        rule.alert: (rule.condition, rule.for_runs, rule.severity, rule.segments)
        for rule in what.judging.rules
        if isinstance(rule, ConditionRule)
    }


def test_rules_on_conditions_are_there_unless_told_otherwise():
    what = comparison_of(MINIMAL)
    assert of_conditions(what) == {
        "RunFailing": (Condition.ERROR, 2, Severity.WARNING, "all"),
        "NoData": (Condition.NO_DATA, 2, Severity.WARNING, "named"),
        "TooFewUsers": (Condition.TOO_FEW, 3, Severity.INFO, "all"),
        "Stale": (Condition.STALE, 1, Severity.CRITICAL, "all"),
    }
    assert {rule.kind for rule in what.judging.rules} == {RuleKind.CONDITION}
    assert (what.judging.ignored, what.judging.stale_after) == (frozenset(), 3)


def test_what_a_comparison_says_stands_key_by_key_over_what_is_said_for_all():
    text = f"""conditions:
  error: {{for: 4, severity: critical, runbook_url: https://runbooks.test/failing}}
  no_data: {{policy: ignore}}
  stale: {{after: 5}}
{MINIMAL}    conditions:
      error: {{for: 1}}
      too_few: {{policy: keep}}
      no_data: {{segments: each}}
"""
    what = comparison_of(text)

    assert of_conditions(what) == {
        "RunFailing": (Condition.ERROR, 1, Severity.CRITICAL, "all"),
        "Stale": (Condition.STALE, 1, Severity.CRITICAL, "all"),
    }
    assert what.judging.rules[0].runbook_url == "https://runbooks.test/failing"
    assert (what.judging.ignored, what.judging.stale_after) == (frozenset({Condition.NO_DATA}), 5)


def test_a_comparison_may_put_back_what_is_ignored_for_all():
    text = (
        f"conditions: {{no_data: {{policy: ignore, for: 7}}}}\n{MINIMAL}    conditions: "
        "{no_data: {policy: alert}}\n"
    )
    what = comparison_of(text)
    assert of_conditions(what)["NoData"][1] == 7
    assert what.judging.ignored == frozenset()


def test_a_rule_of_its_name_takes_the_place_of_one_on_a_condition():
    text = f"{MINIMAL}    rules:\n      - {{alert: NoData, coverage: unpaired, above: 0.3}}\n"
    what = comparison_of(text)
    (rule,) = (rule for rule in what.judging.rules if rule.alert == "NoData")
    assert rule.subject.metric == "coverage"


DRY_RUNS = """
-     | -     | told
true  | -     | muted
true  | false | told
-     | true  | muted
false | true  | muted
"""


def test_a_rule_is_a_dry_run_as_it_says_or_else_as_its_comparison_says():
    for of_comparison, of_rule, wanted in rows(DRY_RUNS):
        own = f", dry_run: {of_rule}" if of_rule != "-" else ""
        whole = f"    dry_run: {of_comparison}\n" if of_comparison != "-" else ""
        text = (
            f"{MINIMAL}{whole}    default_rules: true\n    rules:\n      - {{alert: Low, metric: "
            f"extended_tau, below: 0.2{own}}}\n"
        )
        settings = load_text(text)
        assert (("feed", "Low") in policy_of(settings).muted) == (wanted == "muted")
        rules = to_comparison(settings.comparisons[0]).judging.rules
        assert rules[0].is_dry_run == (wanted == "muted")
        assert {rule.is_dry_run for rule in rules[1:]} == {of_comparison == "true"}
