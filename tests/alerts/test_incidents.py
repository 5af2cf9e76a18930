from dataclasses import replace
from datetime import datetime, timedelta

from factories import HOUR, SLOT, comparison, rule, transition
from monitor.alerts.incidents import GROUP_FOR, assign_incidents
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.rules import Condition, ConditionRule, Severity
from storage.worked import fired, resolved

CONDITIONS = (
    ConditionRule(alert="Stale", condition=Condition.STALE),
    ConditionRule(alert="NoData", condition=Condition.NO_DATA),
)


def begin(slot: datetime, **changes: object) -> tuple[AlertState, Transition]:
    severity = changes.pop("severity", Severity.CRITICAL)
    state, cause = fired(slot, **changes)
    return replace(state, severity=severity), replace(cause, severity=severity)  # type: ignore[arg-type]  # a Severity


def named(
    *moves: tuple[AlertState, Transition | None],
    before: tuple[AlertState, ...] = (),
    group_for: timedelta = GROUP_FOR,
) -> tuple[list[AlertState], list[Transition]]:
    states, changes = [state for state, _ in moves], [change for _, change in moves if change is not None]
    judging = comparison(rules=(rule(), *CONDITIONS), group_for=group_for).judging
    found = assign_incidents(states, changes, before, judging)
    return list(found[0]), list(found[1])


def test_what_begins_in_one_run_is_one_incident_whatever_its_severity() -> None:
    states, changes = named(begin(SLOT), begin(SLOT, segment="a=1"), begin(SLOT, segment="a=2", severity=Severity.WARNING))
    (name,) = {change.incident for change in changes}
    assert {state.incident for state in states} == {name}
    assert len(name or "") == 32


def test_the_same_run_judged_again_names_the_same_incident() -> None:
    assert named(begin(SLOT)) == named(begin(SLOT))
    assert named(begin(SLOT))[1][0].incident != named(begin(SLOT + HOUR))[1][0].incident


def test_an_incident_is_joined_for_a_while_after_its_first_alert_but_not_for_ever() -> None:
    (first,), _ = named(begin(SLOT))
    (last,), _ = named(begin(SLOT + 6 * GROUP_FOR, segment="a=1"), before=(first,))
    for days, joins in ((7, True), (8, False)):
        _, (change,) = named(begin(SLOT + days * GROUP_FOR, segment="a=2"), before=(first, last))
        assert (change.incident == first.incident == last.incident) is joins, days


def test_of_two_open_incidents_the_newer_is_joined_and_an_outage_joins_none_of_drift() -> None:
    (old,), _ = named(begin(SLOT))
    (new,), _ = named(begin(SLOT + HOUR, segment="a=1"), before=(old,), group_for=timedelta(0))
    _, (joined,) = named(begin(SLOT + 2 * HOUR, segment="a=2", severity=Severity.INFO), before=(old, new))
    (stale,), (apart,) = named(begin(SLOT + 2 * HOUR, alert="Stale", metric="condition", statistic="stale"), before=(old, new))
    _, (drift,) = named(begin(SLOT + 3 * HOUR, segment="a=3"), before=(old, new, stale))
    assert old.incident != new.incident
    assert joined.incident == drift.incident == new.incident
    assert apart.incident not in {old.incident, new.incident}


def test_that_nothing_can_be_judged_joins_drift_and_is_joined_by_that_no_run_succeeds() -> None:
    (drift,), _ = named(begin(SLOT))
    no_data, stale = ({"alert": alert, "metric": "condition"} for alert in ("NoData", "Stale"))
    _, (joined,) = named(begin(SLOT + HOUR, **no_data), before=(drift,))
    (alone,), _ = named(begin(SLOT, **no_data))
    _, (outage,) = named(begin(SLOT + HOUR, **stale), before=(alone,))
    assert (joined.incident, outage.incident) == (drift.incident, alone.incident)


def test_what_goes_on_keeps_its_incident_and_who_looks_after_it_and_ends_in_it() -> None:
    (first,), _ = named(begin(SLOT))
    held = replace(first, acknowledged_by="anna")
    states, _ = named((replace(first, judged_slot=SLOT + HOUR, incident=None), None), before=(held,))
    assert (states[0].incident, states[0].acknowledged_by) == (first.incident, "anna")

    (quiet,), (end,) = named(resolved(SLOT + HOUR, held), before=(held,))
    assert (quiet.incident, quiet.acknowledged_by, end.incident) == (None, None, first.incident)


def test_what_is_pending_has_no_incident() -> None:
    pending = transition(from_state=State.QUIET, to_state=State.PENDING, dedup_key=None)
    state = replace(begin(SLOT)[0], state=State.PENDING, dedup_key=None)
    states, changes = named((state, pending))
    assert (states[0].incident, changes[0].incident) == (None, None)
