"""What a message says of an explanation, sentence by sentence."""

import pytest

from monitor.attribution import write_alert_text
from monitor.attribution.sentences import write_distance, write_fall
from monitor.model import Explanation, ExposedItem, Part, PartMeans, SegmentFall


def fall(segment: str = "country=DE", *, share: float = 0.25, **parts: float) -> SegmentFall:
    amounts = dict.fromkeys(Part, 0.0) | {Part(name): amount for name, amount in parts.items()}
    return SegmentFall(segment=segment, share=share, share_before=share, parts=amounts, excess=0.1)


def item(name: str, title: str | None = None) -> ExposedItem:
    return ExposedItem(item=name, title=title, before=0.0, after=0.5, share_before=0.0, share_after=1.0)


def explanation(**changes: object) -> Explanation:
    given: dict[str, object] = {
        "metric": "extended_tau",
        "runs": 7,
        "sentence": "All of the drop: everywhere, items moved.",
        "segment": "all",
        "now": 0.75,
        "before": 0.5,
        "gained": (item("a", "Tea"), item("b"), item("c"), item("d")),
        "lost": (item("x"),),
        "entered": 4,
        "left": 1,
        "groups": (),
        "falls": (fall(membership=0.1, order=0.025), fall("country=UK", share=0.75, order=0.125)),
    } | changes
    return Explanation(**given)  # type: ignore[arg-type] # each is of its field's type


@pytest.mark.parametrize(
    ("found", "drop", "expected"),
    [
        # 0.125 of 0.25 by a quarter of the users: each of them fell by 0.5.
        (
            fall(membership=0.1, order=0.025),
            0.25,
            "In country=DE the mean fell by 0.5000, 50 % of everybody's drop; membership 80 %; order 20 %.",
        ),
        # Others rose as much: what is left of the drop is nothing to have a share of.
        (fall(order=0.125), 0.01, "In country=DE the mean fell by 0.5000; order 100 %."),
        (fall(order=0.125), -0.1, "In country=DE the mean fell by 0.5000; order 100 %."),
        (fall(order=-0.125), 0.25, "In country=DE the mean rose by 0.5000."),
        (fall(), 0.25, "In country=DE there is no fall to explain."),
        (fall(share=0.0, composition=0.1), 0.25, "In country=DE there is no fall to explain."),
    ],
)
def test_a_segment_s_fall_is_told_with_its_share_of_the_drop_and_its_parts(
    found: SegmentFall, drop: float, expected: str
) -> None:
    assert write_fall(found, drop) == expected


def test_without_a_past_the_distance_is_told_by_parts() -> None:
    total = PartMeans(segment="all", asked=9, n=9, membership=0.3, order=0.1, length=0.0, spread=0.2)
    assert write_distance(total) == (
        "No healthy run to hold this against: lists lie 0.4000 from identical ones; membership 75 %; order 25 %."
    )
    nobody = PartMeans(segment="all", asked=9, n=0, membership=0.0, order=0.0, length=0.0, spread=0.0)
    assert write_distance(nobody) == write_distance(None) == "No user's lists have a score, so there is nothing to explain."


def test_identical_lists_lie_nowhere_from_identical_ones() -> None:
    total = PartMeans(segment="all", asked=9, n=9, membership=0.0, order=0.0, length=0.0, spread=0.0)
    assert write_distance(total) == "No healthy run to hold this against: lists lie 0.0000 from identical ones."


def test_a_message_tells_the_sentence_and_three_items_of_each_kind_by_title_where_known() -> None:
    told = write_alert_text(explanation(), metric="extended_tau", segment="all")
    assert told == "All of the drop: everywhere, items moved. Items shown more: Tea, b, c; less: x."


def test_a_message_about_a_segment_tells_its_own_fall_first() -> None:
    told = write_alert_text(explanation(gained=(), lost=()), metric="extended_tau", segment="country=UK")
    assert told == (
        "In country=UK the mean fell by 0.1667, 50 % of everybody's drop; order 100 %. "
        "All users: all of the drop: everywhere, items moved."
    )


def test_a_message_about_a_segment_that_is_not_told_has_the_sentence_alone() -> None:
    told = write_alert_text(explanation(gained=(), lost=()), metric="extended_tau", segment="activity=new")
    assert told == "All of the drop: everywhere, items moved."


def test_a_message_about_another_metric_names_the_one_explained() -> None:
    assert write_alert_text(explanation(gained=(), lost=()), metric="overlap", segment="all").startswith(
        "By extended_tau: All of"
    )


def test_items_of_a_leading_segment_are_told_as_its_own() -> None:
    assert "Items shown in country=DE more: " in write_alert_text(
        explanation(segment="country=DE"), metric="extended_tau", segment="all"
    )
