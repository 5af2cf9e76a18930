"""Routes, fallbacks, maintenance and dry runs of a configuration, as the policy that they make."""

from datetime import UTC, datetime, timedelta

from monitor.settings.translation import policy_of, to_comparison
from settings.minimal import MINIMAL, load_text
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
