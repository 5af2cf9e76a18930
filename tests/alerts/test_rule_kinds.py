"""The registry of rule kinds: a kind that is forgotten somewhere fails here."""

from factories import comparison, coverage_rule, evaluate, rule
from monitor.alerts.rule_evaluation import JUDGES
from monitor.model.rankings import Arm
from monitor.model.rules import METRIC_LABELS, BaseRule, Condition, ConditionRule, Rule, RuleKind, StandstillRule, kind_of_label

ONE_OF_EACH: dict[RuleKind, Rule] = {
    RuleKind.SIMILARITY: rule(),
    RuleKind.COVERAGE: coverage_rule("missing"),
    RuleKind.STANDSTILL: StandstillRule(alert="Frozen", arm=Arm.CANDIDATE),
    RuleKind.CONDITION: ConditionRule(alert="NoData", condition=Condition.NO_DATA),
}


def test_every_kind_of_rule_has_a_judge_a_class_and_a_label() -> None:
    assert set(JUDGES) == set(RuleKind)
    assert {kind.kind for kind in BaseRule.__subclasses__()} == set(RuleKind)
    assert len({kind.__qualname__ for kind in BaseRule.__subclasses__()}) == len(RuleKind)
    assert set(METRIC_LABELS) == set(RuleKind) - {RuleKind.SIMILARITY}


def test_the_label_of_an_alert_leads_back_to_the_kind_of_its_rule() -> None:
    for kind, each in ONE_OF_EACH.items():
        assert (each.kind, kind_of_label(each.subject.metric)) == (kind, kind)


def test_a_rule_of_every_kind_is_evaluated_in_every_run() -> None:
    states, _ = evaluate(comparison(rules=tuple(ONE_OF_EACH.values())))
    assert {state.alert for state in states} == {each.alert for each in ONE_OF_EACH.values()}
