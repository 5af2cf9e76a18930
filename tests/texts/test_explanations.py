"""What is said of an explanation, sentence by sentence."""

import unicodedata
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from messages import explanation
from monitor.model.explanation import (
    DropPart,
    ExposedItem,
    FaultKind,
    Finding,
    MeanDrop,
)
from monitor.model.rankings import Arm
from monitor.texts.explanations import (
    LONGEST_EXPLANATION,
    shorten_name,
    write_alert_text,
    write_drop,
    write_finding,
)
from texts.examples import fall, parts_of


def drop_of(leader=None, *, noise=0.001, **parts):
    return MeanDrop(
        before=0.5,
        now=0.5 + sum(parts.values()),
        noise=noise,
        parts=parts_of(parts),
        falls=(fall(),),
        leader=leader,
    )


CUT = Finding(
    kind=FaultKind.CUT_SHORT,
    arms=(Arm.CANDIDATE,),
    segment="country=FR",
    segment_share=1.0,
    users=250,
    compared=1000,
    detail={"now": 5.0, "before": 10.0},
)


def test_a_fault_is_told_with_whom_it_concerns_and_what_the_mean_did():
    told = (
        "250 of 1,000 users (25 %), most of them in country=FR, get shorter lists from the "
        "candidate: 5 items instead of 10. It concerns 100 % of the users in country=FR."
    )
    whole = told.replace("most of them in", "exactly the users in").partition(" It concerns")[0]
    duplicated = replace(CUT, segment="all", detail={**CUT.detail, "duplicated": 0.5})
    assert write_finding(duplicated, None).startswith(
        "250 of 1,000 users (25 %) get lists with duplicates from the candidate: 5 different items "
        "instead of 10."
    )
    assert write_finding(replace(CUT, is_exact=True), None).startswith(whole)
    assert write_finding(CUT, None) == f"{told} (No earlier lists to compare with.)"
    assert (
        write_finding(CUT, drop_of(order=-0.1))
        == f"{told} The similarity of all users rose by 0.1000."
    )
    assert (
        write_finding(CUT, drop_of(order=0.0019))
        == f"{told} The similarity of all users hardly fell."
    )


HOSTILE = "c=\x1b]0;owned\x07\n\r\u202eDE\u2066 \ud800" + "x" * 5000
amounts = st.floats(-1, 1).map(lambda value: round(value, 6))


def test_hostile_names_stay_on_one_short_line():
    assert shorten_name(HOSTILE) == "c= ]0;owned DE " + "x" * 24 + "…"
    assert shorten_name(f"{HOSTILE} and a=new") == shorten_name(HOSTILE) + " and a=new"


@given(
    st.text(max_size=60),
    st.lists(amounts, min_size=4, max_size=4),
    st.booleans(),
    st.sampled_from([0.0, 0.01, 5.0]),
)
def test_whatever_happened_is_one_printable_line_of_bounded_length(name, values, has_leader, noise):
    parts = dict(zip(map(str, DropPart), values, strict=True))
    drop = drop_of(fall(0.4, name, **parts) if has_leader else None, noise=noise, **parts)
    for found in (
        write_drop(drop),
        write_drop(drop_of(fall(segment=HOSTILE, order=0.1), order=0.1)),
    ):
        assert len(found) <= LONGEST_EXPLANATION
        assert found.endswith(".")
        assert not any(
            unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in found
        )


def item(name, title=None):
    return ExposedItem(
        item=name, title=title, before=0.0, after=0.5, share_before=0.0, share_after=1.0
    )


FALLS = (fall(membership=0.1, order=0.025), fall(0.75, "country=UK", order=0.125))


def text(segment="all", **changes):
    """The text of an alert on this segment.

    The explanation has no clear cause unless another is given.
    """
    usual = {
        "sentence": "No clear cause.",
        "now": 0.75,
        "before": 0.5,
        "falls": FALLS,
        "gained": (),
        "lost": (),
    }
    return write_alert_text(
        explanation(**{**usual, **changes}), metric="extended_tau", segment=segment
    )


def test_a_message_tells_the_sentence_and_three_items_of_each_kind_by_title_where_known():
    told = text(gained=(item("a", "Tea"), item("b"), item("c"), item("d")), lost=(item("x"),))
    assert told == "No clear cause. Items shown more: Tea, b, c; less: x."
    # The explanation is of one segment.
    base = explanation(
        sentence="No clear cause.", segment="country=DE", gained=(), lost=(item("x"),)
    )
    told = write_alert_text(base, metric="extended_tau", segment="all")
    assert told == "No clear cause. Items shown in country=DE less: x."


def test_a_message_about_a_segment_tells_its_own_fall_first_where_it_is_known():
    assert text("country=UK") == (
        "In country=UK similarity fell by 0.1667, 50 % of the drop of all users: items moved 100 %. "
        "All users: no clear cause."
    )
    assert text("activity=new") == "No clear cause."


def test_a_cause_that_is_known_comes_before_the_segment_s_fall():
    told = text("country=UK", finding=CUT, sentence="Lists are short.")
    assert told.startswith("Lists are short. In country=UK similarity fell by 0.1667")
