"""A changed spelling of ids is a cause of its own, with an example of each, and no list that looks random."""

from factories import changed, comparison, pull, rule
from monitor.model.comparison import Comparison, Keep
from monitor.model.explanation import FaultKind
from monitor.model.id_mismatches import MismatchKind
from monitor.model.memory import Memory
from monitor.model.runs import RunResult
from pipeline.canned import ran, users

NAMES = [f"u{number}" for number in range(80)]
BEFORE = {
    name: [f"SKU-{number + place}" for place in range(3)] for number, name in enumerate(NAMES)
}
AFTER = {name: [f"sku_{number + place}" for place in range(3)] for number, name in enumerate(NAMES)}
WATCHED = comparison(k=3, rules=(rule(for_runs=1, min_users=1),), keep_lists=Keep.ALL)
COUNTRIES = ["DE"] * 40 + ["UK"] * 40


def run(
    candidate: dict[str, list[str]], memory: Memory | None = None, what: Comparison = WATCHED
) -> RunResult:
    return ran(
        what,
        pull(BEFORE),
        pull(candidate),
        users(*NAMES, country=COUNTRIES),
        memory=memory or Memory(),
    )


def after(earlier: RunResult) -> Memory:
    splits = () if earlier.split is None else (earlier.split,)
    return Memory(splits=splits, last_lists=earlier.lists, former_lists=earlier.lists)


def test_a_changed_spelling_is_named_with_an_example_of_each_in_the_explanation_the_alert_and_the_run():
    result = run(AFTER, after(run(BEFORE)))

    assert result.explanation is not None
    finding = result.explanation.finding
    assert finding is not None
    assert (finding.kind, finding.users) == (FaultKind.RESPELLED, 80)
    said = (
        "80 of 80 users (100 %) get items from the candidate whose ids are spelled otherwise "
        "than before: SKU-"
    )
    assert result.explanation.sentence.startswith(said)
    assert (
        '(now). Set item_ids: [{prefix: "SKU-"}, {prefix: "sku_"}] for both arms.'
        in result.explanation.sentence
    )
    assert said in (result.transitions[0].explanation or "")
    assert [each.kind for each in result.explanation.id_mismatches] == [MismatchKind.PREFIX]
    assert (result.reason or "").startswith(
        "no item is in both arms: the ids differ in their prefix, such as 'SKU-"
    )


def test_a_changed_spelling_of_one_segment_names_the_segment():
    half = {name: (AFTER if number < 40 else BEFORE)[name] for number, name in enumerate(NAMES)}
    result = run(half, after(run(BEFORE)))

    assert result.explanation is not None
    assert result.explanation.finding is not None
    assert result.explanation.finding.kind is FaultKind.RESPELLED
    assert result.explanation.segment == "country=DE"
    assert (
        "exactly those of country=DE, get items from the candidate" in result.explanation.sentence
    )
    assert result.explanation.id_mismatches == ()  # half of the items are in both arms
    assert result.reason is None


def test_a_first_run_in_which_nothing_meets_says_why():
    result = run(AFTER)

    assert result.explanation is not None
    assert result.explanation.sentence.startswith(
        (
            "80 of 80 users (100 %) get items whose ids are spelled otherwise by baseline and "
            "candidate: SKU-"
        )
    )


def test_other_items_are_no_changed_spelling():
    other = {name: [f"other {each}" for each in "xyz"] for name in NAMES}
    result = run(other, after(run(BEFORE)))

    assert result.explanation is not None
    assert result.explanation.finding is not None
    assert result.explanation.finding.kind is not FaultKind.RESPELLED


def test_an_alert_says_that_an_item_fills_up_lists():
    padded = {name: [*items[:2], "-1", "-1"] for name, items in BEFORE.items()}
    watched = changed(WATCHED, k=4, rules=(rule(for_runs=1, min_users=1, threshold=0.99),))
    result = run(padded, what=watched)

    assert "Item '-1' fills the end of 80 of 80 lists of the candidate." in (
        result.transitions[0].explanation or ""
    )


def test_where_items_are_hidden_no_id_is_named():
    hidden = changed(WATCHED, shows_items=False)
    result = run(AFTER, after(run(BEFORE)), hidden)

    assert result.explanation is not None
    assert "SKU-1" not in result.explanation.sentence
    assert "sku_" not in (result.reason or "").partition("Set item_ids")[0]
