"""What a run explains, by which metric, and what its alerts say of it."""

from dataclasses import replace

import pytest

from factories import DAY, SLOT, changed, comparison, coverage_rule, pull, rule, transition
from monitor.measures.metrics import parse
from monitor.model.alerts import State
from monitor.model.explanation import FaultKind
from monitor.model.instants import format_instant
from monitor.model.memory import Memory
from monitor.model.rankings import CoverageReason
from monitor.model.rules import Condition, ConditionRule, Direction, Keep, RuleKind
from monitor.model.runs import MeasuredRun, RunStatus
from monitor.pipeline.alert_explanations import (
    add_explanations,
    choose_explanation,
    leave_out_weak_cause,
    prefer_similarity_finding,
)
from monitor.pipeline.item_titles import add_titles
from monitor.pipeline.run_explanation import choose_metric
from monitor.receivers.message.safe_text import cause_of
from pipeline.canned import CannedTitles, ran, users
from tables import cells

NAMES = [f"u{number}" for number in range(80)]
SAME = {name: [1, 2, 3] for name in NAMES}
OTHER = {name: [7, 8, 9] if name in NAMES[:40] else [1, 2, 3] for name in NAMES}
TWO = comparison(k=3, rules=(rule(for_runs=1, min_users=1),), evidence_users=2, keep_lists=Keep.ALL)
COUNTRIES = ["DE"] * 40 + ["UK"] * 40
UNMEASURED = MeasuredRun(slot=SLOT)


def run(candidate, what=TWO, memory=None, **more):
    return ran(
        what, pull(SAME), pull(candidate), users(*NAMES, country=COUNTRIES), memory=memory, **more
    )


def explained(*args, **more):
    """What the same run explains."""
    return run(*args, **more).explanation


def after(*runs):
    """What these runs leave for the next."""
    splits = tuple(each.split for each in runs if each.split is not None)
    return Memory(splits=splits, last_lists=runs[-1].lists, former_lists=runs[-1].lists)


CHOSEN = """
# watched               measured                         explained
overlap extended_tau    extended_tau rbo(p=0.9) overlap  overlap
jaccard rbo(p=0.9)      extended_tau rbo(p=0.9) overlap  rbo(p=0.9)
over_floor(rbo(p=0.9))  extended_tau rbo(p=0.9) overlap  rbo(p=0.9)
jaccard                 extended_tau rbo(p=0.9) overlap  extended_tau
jaccard                 ndcg                             None
# One of relevance never is.
ndcg                    ndcg overlap                     overlap
"""


def test_the_explained_metric_is_that_of_the_first_rule_or_else_the_first_metric():
    for watched, measured, explained in cells(CHOSEN):
        rules = tuple(rule(metric=name) for name in watched.split())
        assert (
            str(choose_metric(comparison(rules=rules), [parse(name) for name in measured.split()]))
            == explained
        )


def test_the_first_run_explains_the_distance_and_no_drop():
    found = explained(OTHER)
    assert found.sentence == (
        "No earlier lists to compare with. The distance from identical lists is 1.0000: items "
        "replaced 100 %."
    )
    assert found.before is None
    assert found.drop == 0.0
    assert found.paired == 0
    assert found.arm is None
    assert not found.causes
    assert not found.falls
    assert [item.item for item in found.gained] == ["7", "8", "9"]
    assert found.groups[0].examples[0].candidate == ("7", "8", "9")
    unseen = explained(OTHER, changed(TWO, evidence_users=0))
    assert {group.examples for group in unseen.groups} == {()}


def test_a_run_with_earlier_lists_explains_its_drop_by_segment_items_and_users():
    found = explained(OTHER, memory=after(run(SAME), run(SAME)))
    assert found.before == 0.0
    assert found.now == 1.0
    assert found.sentence == (
        "40 of 80 users (50 %), exactly the users in country=DE, get items from the candidate that "
        "hardly anybody got before: 3 items, 50 % of what is shown. This explains all of the drop. "
        "The baseline did not change."
    )
    falls = {fall.segment: fall.total for fall in found.falls}
    assert falls == {"country=DE": 1.0, "country=UK": 0.0}
    assert found.causes[0].part == "membership"
    assert found.causes[0].amount == 1.0
    (group,) = found.groups
    assert group.change == "replaced"
    assert group.users == 40
    assert group.share_before == 0.0
    assert [example.user for example in group.examples] == ["u0", "u1"]


def test_lists_that_became_identical_are_a_rise_with_a_cause_of_its_own():
    above = changed(
        TWO,
        rules=(
            rule(
                alert="TooSimilar",
                direction=Direction.ABOVE,
                threshold=0.9,
                for_runs=1,
                min_users=1,
            ),
        ),
    )
    before = after(run({name: [7, 8, 9] for name in NAMES}, above))
    result = run(SAME, above, before)
    found = result.explanation
    assert found.finding.kind == FaultKind.IDENTICAL
    assert found.finding.explained is None
    sentence = (
        "80 of 80 users (100 %) get the baseline's list from the candidate: both lists are "
        "identical. Is the experiment applied? The similarity of all users rose by 2.0000. The "
        "baseline did not change."
    )
    assert found.sentence == sentence
    (alert,) = result.transitions
    assert alert.explanation.startswith(sentence)
    half = {name: SAME[name] if name in NAMES[:40] else [7, 8, 9] for name in NAMES}
    assert explained(half, above, before).sentence.startswith(
        "40 of 80 users (50 %), exactly the users in country=DE, get the baseline's list"
    )


def test_lists_with_duplicates_are_named_as_the_cause():
    found = explained({name: [1, 1, 2] for name in NAMES}, memory=after(run(SAME)))
    assert found.sentence.startswith(
        "80 of 80 users (100 %) get lists with duplicates from the candidate: 2 different items "
        "instead of 3."
    )


def test_missing_users_are_a_cause_only_if_their_usual_share_is_known_for_the_same_metric():
    what = changed(TWO, min_paired_share=0.1)
    before = after(run(SAME, what))
    other = replace(before, splits=tuple(replace(each, metric="overlap") for each in before.splits))
    first, changed_metric, known = (
        explained({name: SAME[name] for name in NAMES[::2]}, what, memory)
        for memory in (Memory(), other, before)
    )
    assert first.finding is None
    assert changed_metric.finding is None
    assert known.sentence.startswith(
        "40 of 80 users (50 %) got no list from the candidate (0 % before)."
    )


LOST = (
    coverage_rule("missing(candidate)", threshold=0.1),
    coverage_rule("failed(candidate)", alert="FailedLists", threshold=0.1),
    ConditionRule(alert="NoData", condition=Condition.NO_DATA),
)


SAID = """
0.1  -             no list from the candidate (0 % before).
0.9  -             no list from the candidate.
0.9  empty         an empty list from the candidate.
0.9  server_error  no list from the candidate: recs answered 503.
"""


@pytest.mark.parametrize("least, failed, got", cells(SAID))
def test_alerts_on_users_without_a_list_name_their_segment_and_the_cause(least, failed, got):
    said = f"40 of 80 users (50 %), exactly the users in country=DE, got {got}"
    what = changed(TWO, min_paired_share=float(least), rules=(*TWO.judging.rules, *LOST))
    failures = {} if failed == "-" else dict.fromkeys(NAMES[:40], CoverageReason(failed))
    candidate = pull({name: SAME[name] for name in NAMES[40:]}, failures)
    candidate = replace(candidate, notes={CoverageReason.SERVER_ERROR: "recs answered 503"})
    result = ran(
        what, pull(SAME), candidate, users(*NAMES, country=COUNTRIES), memory=after(run(SAME, what))
    )
    starts = [each for each in result.transitions if each.to_state is not State.QUIET]
    assert starts
    for alert in starts:
        assert alert.explanation.startswith(said)
        assert cause_of(alert) == said.rstrip(".")


def test_users_without_a_list_explain_the_alert_on_no_data_but_not_the_alert_on_their_count():
    what = changed(TWO, min_paired_share=0.9, rules=LOST)
    result = run({name: SAME[name] for name in NAMES[::2]}, what)
    said = {alert.alert: alert.explanation for alert in result.transitions}
    assert said == {
        "MissingLists": None,
        "NoData": "40 of 80 users (50 %) got no list from the candidate.",
    }


def test_a_run_that_cannot_be_explained_has_no_split_and_no_explanation_but_still_alerts():
    thin = run({"u0": [1, 2, 3]})
    assert thin.status == RunStatus.INSUFFICIENT
    assert thin.split is None
    assert thin.explanation is None
    related = changed(
        TWO,
        metrics=("rbo_min(p=0.9)",),
        rules=(rule(metric="rbo_min(p=0.9)", for_runs=1, min_users=1),),
    )
    result = run({name: [7, 8, 9] for name in NAMES}, what=related)
    assert [(each.to_state, each.explanation) for each in result.transitions] == [
        (State.FIRING, None)
    ]
    assert result.split is None
    assert result.explanation is None


def test_an_alert_has_the_explanation_and_the_fall_of_its_segment():
    each = changed(TWO, rules=(rule(for_runs=1, min_users=1, segments="each"),))
    result = run(OTHER, each, after(run(SAME)))
    said = {alert.segment: alert.explanation for alert in result.transitions}
    items = "Items shown in country=DE more: 7, 8, 9; less: 1, 2, 3."
    sentence = result.explanation.sentence if result.explanation else ""
    assert said == {
        "all": f"{sentence} {items}",
        "country=DE": (
            f"{sentence} In country=DE similarity fell by 2.0000, 100 % of the drop of all users: "
            f"items replaced 100 %. {items}"
        ),
    }


def test_a_late_alert_names_the_fault_of_the_run_in_which_the_fault_began():
    came = run(OTHER, memory=after(run(SAME)))
    late = replace(after(came), earlier_explanations=((SLOT, came.explanation),))
    recalled, without_rules = (
        explained(OTHER, changed(TWO, rules=rules), late) for rules in (TWO.judging.rules, ())
    )
    since = f"Since the run of {format_instant(SLOT)}: "
    sentence = f"{since}{came.explanation.sentence}"
    assert recalled == replace(came.explanation, sentence=sentence, is_recalled=True)
    assert without_rules.finding is None
    (alert,) = add_explanations((ALERTS["unchanged"],), recalled, UNMEASURED)
    assert str(alert.explanation).startswith(f"Measured by extended_tau: {since}")


ALERTS = {
    "order": transition(metric="coverage", statistic="top_reversed(candidate)"),
    "unchanged": transition(metric="coverage", statistic="unchanged_list"),
    "rise": transition(direction=Direction.ABOVE),
    "jump": transition(metric="coverage", statistic="exposure_jump(candidate)"),
}
RECALLED = """
# this run    earlier runs                        alerts           recalled
stale 40 0.1  noise 40 1                          unchanged        -
-             replaced 40 -                       unchanged        -
-             reordered 1 0.1, reordered 40 0.1   order            1
-             reordered 40 0.1                    order unchanged  -
-             items_gone 40 0.1                   unchanged        0
-             items_gone 40 1                     jump             -
-             identical 40 -                      unchanged        -
-             identical 40 -                      rise             0
# A fault is the only reason why users get the same list, however few users they are.
-             shared_list 1 0.1                   unchanged        0
"""
"""Findings: kind, users, and the explained share of the drop."""


def with_finding(found, text, **more):
    kind, users, share = text.split()
    explained = None if share == "-" else float(share)
    finding = replace(found.finding, kind=FaultKind(kind), users=int(users), explained=explained)
    return replace(found, finding=replace(finding, **more))


def test_an_earlier_finding_is_recalled_if_it_is_the_cause_of_the_alerts():
    found = explained(OTHER, memory=after(run(SAME)))
    for now, earlier, alerts, recalled in cells(RECALLED):
        current = replace(found, finding=None) if now == "-" else with_finding(found, now)
        past = [with_finding(found, each) for each in earlier.split(", ")]
        starts = [ALERTS[name] for name in alerts.split()]
        result = choose_explanation(current, [(SLOT, each) for each in past], starts)
        assert result is not None
        assert result.finding == (current if recalled == "-" else past[int(recalled)]).finding
    # The lists changed after the run that they are compared with.
    later = choose_explanation(
        replace(current, since=SLOT), [(SLOT + DAY, past[0])], [ALERTS["jump"]]
    )
    assert later is not None
    assert later.is_recalled


def test_an_alert_on_lists_like_the_other_arms_names_them_if_nothing_else_explains_it():
    nothing = replace(explained(SAME, memory=after(run(SAME))), paired=1000)
    alert = transition(
        metric="coverage",
        statistic="interleaved_list(candidate)",
        value=0.55,
        normal=0.4,
        users=1000,
    )
    named = prefer_similarity_finding(nothing, (alert,))
    assert named is not None
    assert named.finding is not None
    assert named.sentence.startswith(
        "About 250 of 1,000 users (25 %) get lists from the candidate that are mixed with"
    )
    of_others = replace(named, finding=replace(named.finding, kind=FaultKind.UNCHANGED))
    more = replace(named, finding=replace(named.finding, kind=FaultKind.ALIKE, users=200))
    drop = transition(metric="extended_tau", statistic="mean")
    assert prefer_similarity_finding(of_others, (alert,)) == of_others
    assert prefer_similarity_finding(more, (alert,)) == more
    assert prefer_similarity_finding(nothing, (alert, drop)) == nothing
    assert prefer_similarity_finding(nothing, (drop,)) == nothing


def test_a_fault_of_few_users_that_hardly_explains_the_drop_is_no_cause_of_it():
    found = explained(OTHER, memory=after(run(SAME)))
    weak = with_finding(found, "cut_short 2 0.05")
    general = with_finding(found, "replaced 2 -", detail={"is_general": 1.0})
    drop = transition(metric="extended_tau", statistic="mean")
    counted = transition(metric="coverage", statistic="short(candidate)", kind=RuleKind.COVERAGE)
    for cause, start in [(weak, drop), (general, counted)]:
        left_out = leave_out_weak_cause(cause, (start,))
        assert left_out is not None
        assert left_out.finding is None
        assert (
            left_out.sentence == "No clear cause. Similarity fell by 1.0000: items replaced 100 %."
        )
    # An alert that counts the users has this cause, and so has an alert on something else.
    assert leave_out_weak_cause(weak, (drop, counted)) is weak
    assert leave_out_weak_cause(weak, (ALERTS["order"],)) is weak
    assert leave_out_weak_cause(general, (drop, counted)) is general
    for strong in ("cut_short 2 0.1", "cut_short 8 0.05", "cut_short 2 -"):
        kept = with_finding(found, strong)
        assert leave_out_weak_cause(kept, (drop,)) is kept


def test_without_a_fault_alerts_on_coverage_and_ends_have_no_explanation_and_other_metrics_name_the_explained_metric():
    alerts = (
        transition(metric="coverage", statistic="missing"),
        transition(from_state=State.FIRING, to_state=State.QUIET),
        transition(metric="overlap"),
        transition(metric="over_floor(extended_tau)"),
    )
    found = run(OTHER).explanation
    *nothing, other, excess = (
        alert.explanation for alert in add_explanations(alerts, found, UNMEASURED)
    )
    assert nothing == [None, None]
    assert str(other).startswith("Measured by extended_tau: No earlier lists")
    assert str(excess).startswith("No earlier lists")
    assert {alert.explanation for alert in add_explanations(alerts, None, UNMEASURED)} == {None}


def test_items_have_the_titles_of_the_catalogue():
    titles = CannedTitles({"7": "Tea", "1": "Kettle", "99": "never listed"})
    result = run(OTHER, titles=titles)
    assert [item.title for item in result.explanation.gained] == ["Tea", None, None]
    bare = replace(result, explanation=result.explanation.without_items)
    titled = replace(bare.explanation, titles={"7": "Tea", "1": "Kettle"})
    assert add_titles(bare, titles, 9)[0] == titled
    assert result.explanation.titles == titled.titles
    assert "more: Tea, 8, 9; less: Kettle, 2, 3." in str(result.transitions[0].explanation)
    assert result.reason is None
