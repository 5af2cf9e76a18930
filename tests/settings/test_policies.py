"""Routes, fallbacks, maintenance and dry runs of a configuration, as the policy that they make."""

from datetime import timedelta

from factories import HOUR, SLOT
from monitor.settings.translation import policy_of, to_comparison
from settings.minimal import MINIMAL, NOTIFICATION, load_text
from tables import rows


def test_a_maintenance_window_is_open_from_its_slot_for_as_long_as_it_lasts():
    for hour, is_open in [(0, False), (1, True), (2, True), (3, False)]:
        (window,) = policy_of(load_text(MINIMAL + NOTIFICATION)).windows
        # In Berlin it is an hour later.
        now = SLOT + timedelta(hours=hour, minutes=30)
        assert window.ends_at(now) == (SLOT + 3 * HOUR if is_open else None)


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
