"""A changed spelling of ids is a cause of its own, and a segment that is absent is no_data: nothing is left out silently."""

from dataclasses import replace

from factories import DAY, changed, comparison, pull, rule
from monitor.model.alerts import State
from monitor.model.explanation import FaultKind
from monitor.model.memory import Memory
from monitor.model.rules import Condition, ConditionRule, Keep
from monitor.model.run_reasons import MismatchKind
from pipeline.canned import ran, users
from pipeline.test_run_explanation import COUNTRIES, NAMES, after

BEFORE = {
    name: [f"SKU-{number + place}" for place in range(3)] for number, name in enumerate(NAMES)
}
AFTER = {name: [f"sku_{number + place}" for place in range(3)] for number, name in enumerate(NAMES)}
WATCHED = comparison(k=3, rules=(rule(for_runs=1, min_users=1),), keep_lists=Keep.ALL)


def run(candidate, memory=None, what=WATCHED):
    return ran(
        what,
        pull(BEFORE),
        pull(candidate),
        users(*NAMES, country=COUNTRIES),
        memory=memory or Memory(),
    )


def explained(*args):
    """What the same run explains."""
    return run(*args).explanation


def test_a_changed_spelling_of_ids_is_named_in_the_explanation_the_alert_and_the_run():
    result = run(AFTER, after(run(BEFORE)))

    found = result.explanation
    said = (
        "80 of 80 users (100 %) get items from the candidate whose ids are spelled differently "
        "than before: SKU-"
    )
    assert found.finding.kind is FaultKind.RESPELLED
    assert found.sentence.startswith(said)
    setting = 'set item_ids: [{prefix: "SKU-"}, {prefix: "sku_"}] for both arms.'
    assert f"(now). If the new ids are wanted, {setting}" in found.sentence
    assert said in result.transitions[0].explanation
    assert [each.kind for each in found.id_mismatches] == [MismatchKind.PREFIX]
    assert result.reason.startswith(
        "no item is in both arms: the ids differ in their prefix, such as 'SKU-"
    )


def test_a_changed_spelling_of_one_segment_names_the_segment():
    half = {name: (AFTER if number < 40 else BEFORE)[name] for number, name in enumerate(NAMES)}
    result = run(half, after(run(BEFORE)))

    found = result.explanation
    assert found.finding.kind is FaultKind.RESPELLED
    assert found.segment == "country=DE"
    assert "exactly the users in country=DE, get items from the candidate" in found.sentence
    # Half of the items are in both arms.
    assert not found.id_mismatches
    assert result.reason is None


def test_a_first_run_without_common_ids_names_the_reason():
    assert explained(AFTER).sentence.startswith(
        "80 of 80 users (100 %) get items whose ids are spelled differently by baseline and "
        "candidate: SKU-"
    )


def test_an_alert_says_that_an_item_fills_up_lists():
    padded = {name: [*items[:2], "-1", "-1"] for name, items in BEFORE.items()}
    watched = changed(WATCHED, k=4, rules=(rule(for_runs=1, min_users=1, threshold=0.99),))
    result = run(padded, what=watched)

    assert "Item '-1' fills the end of 80 of 80 lists of the candidate." in (
        result.transitions[0].explanation or ""
    )


def test_if_items_are_hidden_no_id_is_named():
    hidden = changed(WATCHED, shows_items=False)
    result = run(AFTER, after(run(BEFORE)), hidden)

    assert "SKU-1" not in result.explanation.sentence
    assert "sku_" not in result.reason.partition("Set item_ids")[0]


LISTS = {name: [1, 2, 3] for name in NAMES[:40]}
OTHER = {name: [7, 8, 9] for name in NAMES[:40]}
NO_DATA = ConditionRule(alert="NoData", condition=Condition.NO_DATA, segments="named")


def watched(**changes):
    low = rule(alert="Low", for_runs=1, min_users=1, **changes)
    return comparison(k=3, rules=(low, NO_DATA))


def watch(what, countries, candidate, states=()):
    return ran(
        what,
        pull(LISTS),
        pull(candidate),
        users(*NAMES[:40], country=countries),
        memory=Memory(states=states),
    )


def later(states):
    """The states as of an earlier run."""
    return tuple(replace(each, judged_slot=each.judged_slot - DAY) for each in states)


def moves(result):
    return {(each.alert, each.segment): (each.to_state, each.reason) for each in result.transitions}


def test_a_run_names_rules_on_absent_segments_and_no_data_fires():
    result = watch(watched(segments=("country=no",)), ["NO"] * 40, LISTS)

    assert (
        result.reason
        == "nothing matches rule Low: there is no segment country=no. Did you mean country=NO?"
    )
    said = "no user of the panel belongs to country=no. Did you mean country=NO?"
    assert moves(result) == {("NoData", "country=no"): (State.FIRING, said)}


def test_no_data_fires_for_a_vanished_segment_with_an_alert_until_the_segment_is_back():
    what = watched(segments="each")
    fired = watch(what, ["NO"] * 20 + ["SE"] * 20, OTHER)
    assert moves(fired)["Low", "country=SE"][0] is State.FIRING

    gone = watch(what, ["NO"] * 40, OTHER, later(fired.states))
    assert list(moves(gone)) == [("NoData", "country=SE")]
    assert "no user of the panel belongs to country=SE" in moves(gone)["NoData", "country=SE"][1]

    back = watch(what, ["NO"] * 20 + ["SE"] * 20, OTHER, later(gone.states))
    assert moves(back)["NoData", "country=SE"][0] is State.QUIET


def test_no_data_ends_if_no_rule_names_the_segment_any_more():
    first = watch(watched(segments=("country=no",)), ["NO"] * 40, LISTS)
    second = watch(watched(segments=("country=NO",)), ["NO"] * 40, LISTS, later(first.states))

    assert moves(second)["NoData", "country=no"][0] is State.QUIET
