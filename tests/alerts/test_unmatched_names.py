"""A rule, route, window or silence that matches nothing is named, with the nearest name that exists."""

from dataclasses import replace

from factories import SLOT, comparison, rule, state
from monitor.alerts.notification_policy import Matcher
from monitor.alerts.unmatched_names import (
    find_unmatched,
    find_unmatched_silences,
    may_concern,
    named_segments,
    share_selectors,
)
from monitor.model.segments import find_nearest, name_segment
from monitor.texts.unmatched_names import write_unmatched
from storage.worked import silence
from tables import cells

PRESENT = ("all", "country=NO", "country=SE", "vip=true", "age=18")


NEAREST = """
country=no      country=NO
country=Norway  country=NO
country= SE     country=SE
age=18.5        age=18
country=Brazil  None
county=NO       None
"""
SPELT = """
age=18.0      age=18
vip=True      vip=true
vip=FALSE     vip=false
zip=0042      zip=0042
version=1.10  version=1.10
all           all
"""


def test_the_nearest_segment_is_of_the_same_dimension():
    for name, nearest in cells(NEAREST):
        assert str(find_nearest(name, PRESENT)) == nearest


def test_one_value_has_one_name_however_it_is_written():
    for written, name in cells(SPELT):
        assert name_segment(written) == name


def test_rules_on_the_same_absent_segment_are_reported_once_with_similar_names():
    rules = (
        rule(alert="Low", segments=("all", "country=no")),
        rule(alert="Lower", segments=("country=no",)),
        rule(alert="Far", segments=("country=Brazil",)),
    )
    found = find_unmatched(comparison(rules=rules), PRESENT)

    assert named_segments(rules) == ("country=no", "country=Brazil")
    assert [*map(write_unmatched, found)] == [
        "nothing matches rules Low, Lower: there is no segment country=no. Did you mean country=NO?",
        "nothing matches rule Far: there is no segment country=Brazil. Existing names: country=NO, country=SE",
    ]


ROUTES = """
segment=country=NO alert=Low  -
team=search                   -
segment=country=no            no alert has segment=country=no. Did you mean country=NO?
alert=Lwo                     no alert has alert=Lwo. Did you mean Low?
alert=Low severity=info       no alert has severity=info. Existing names: critical
team=serach                   no alert has team=serach. Did you mean search?
segment=~country=X.*          no alert has segment=~country=X.*
zone=a                        no alert has zone=a
"""


def test_a_route_is_compared_with_every_possible_alert():
    for matchers, said in cells(ROUTES):
        rules = (rule(alert="Low", segments="each", labels={"team": "search"}),)
        selectors = {"routes[0]": tuple(matchers.split())}
        found = find_unmatched(comparison(rules=rules, selectors=selectors), PRESENT)

        told = "".join(map(write_unmatched, found))
        assert told == ("" if said == "-" else f"nothing matches routes[0]: {said}")


def test_a_route_that_another_comparison_may_match_is_not_reported():
    both = [
        comparison(name=name, rules=(rule(alert="Low", segments="each"),))
        for name in ("feed", "shop")
    ]
    shared = [Matcher.parse("segment=country=SE")]
    own = [Matcher.parse("comparison=shop"), *shared]
    nobodys = [Matcher.parse("alert=Lwo")]

    assert share_selectors({"shared": shared, "own": own, "nobodys": nobodys}, both) == {
        "feed": {"nobodys": ("alert=Lwo",)},
        "shop": {"own": ("comparison=shop", "segment=country=SE"), "nobodys": ("alert=Lwo",)},
    }


def test_a_silence_is_compared_with_the_alerts_that_were_judged():
    states = [state(comparison="feed", alert="Low", segment="country=NO")]
    rules = (rule(alert="Low", segments="each", labels={"team": "search"}),)
    comparisons = {name: comparison(name=name, rules=rules) for name in ("feed", "new")}

    def said(*matchers):
        placed = replace(silence(SLOT, SLOT), id=3, matchers=matchers)
        found = find_unmatched_silences([placed], states, comparisons)
        return write_unmatched(found[0]) if found else None

    nothing = "nothing matches silence 3: no alert has"
    absent = f"{nothing} segment=country=no. Did you mean country=NO?"
    assert said("comparison=feed", "segment=country=no") == absent
    assert said("comparison=feed", "segment=country=NO") is None
    assert said("segment=country=no") is None
    assert said("metric=rbo") == f"{nothing} metric=rbo. Existing names: extended_tau"
    assert said("team=serach") == f"{nothing} team=serach. Did you mean search?"


def test_a_silence_of_another_comparison_concerns_this_one_in_no_part():
    placed = replace(silence(SLOT, SLOT), matchers=("comparison=shop", "alert=Low"))
    assert (may_concern(placed, "shop"), may_concern(placed, "feed")) == (True, False)
