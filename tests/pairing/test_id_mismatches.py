"""Ids that hardly meet are explained: in which spelling they would, with an example of each arm."""

import pytest
import yaml

from factories import rankings
from monitor.measures.pairing import id_mismatches
from monitor.measures.pairing.batches import encode_arms
from monitor.measures.pairing.id_mismatches import IdComparison, find_mismatch
from monitor.model.id_forms import make_speller
from monitor.model.run_reasons import IdKind, MismatchKind
from tables import parsed


def find(baseline, candidate, *, has_many_lists=False):
    common = len(set(map(str, baseline)) & set(map(str, candidate)))
    return find_mismatch(
        baseline, candidate, IdKind.ITEM, common=common, has_many_lists=has_many_lists
    )


MISMATCHES = parsed(r"""
    [[42, 7], ["42.0", "7.0"], "TYPE", ["int"]]
    [[42, 7], ["0042", "0007"], "LEADING_ZEROS", ["int"]]
    [[42, 7], [" 42", "7 "], "BLANKS", ["strip"]]
    [["Ab", "cD"], ["ab", "cd"], "CASE", ["lower"]]
    [[42, 7], ["b'42'", "b'7'"], "BYTES", ["{regex: \"b?['\\\"](.*)['\\\"]\"}"]]
    [[42, 7], ["\"42\"", "\"7\""], "QUOTES", ["{regex: \"b?['\\\"](.*)['\\\"]\"}"]]
    [[12, 3], ["SKU-12", "SKU-3"], "PREFIX", ["{prefix: \"SKU-\"}"]]
    [["SKU-12", "SKU-3"], ["sku_12", "sku_3"], "PREFIX", ["{prefix: \"SKU-\"}", "{prefix: \"sku_\"}"]]
    [[12, 3], ["urn:item:12", "urn:item:3"], "PREFIX", ["{prefix: \"urn:item:\"}"]]
    [[12, 3], ["12.html", "3.html"], "SUFFIX", ["{regex: \"(.+)\\\\.html\"}"]]
    [[12, 3], [" i012 ", " i003 "], "SEVERAL", null]
    [["red-shoe", "hat"], ["Red_Shoe", "h-a-t"], "SEPARATORS", []]
    [["a", "b"], [["a", 0.5], ["b", 0.1]], "PAIRS", []]
    [["('a', 0.5)"], ["('a', 0.25)"], "PAIRS", []]
    [[1, 2], ["x", "y"], "UNKNOWN", []]
""")


@pytest.mark.parametrize("baseline, candidate, kind, forms", MISMATCHES)
def test_the_difference_is_named_in_both_directions(baseline, candidate, kind, forms):
    candidate = [tuple(each) if isinstance(each, list) else each for each in candidate]
    there, back = find(baseline, candidate), find(candidate, baseline)

    assert there.kind is back.kind is MismatchKind[kind]
    assert sorted(there.examples) == sorted(back.examples)
    assert there.examples[0] in map(str, baseline)
    if forms is not None:
        assert sorted(there.forms) == sorted(back.forms) == sorted(forms)
    assert kind == "UNKNOWN" or (there.would_match, there.tried) == (len(baseline), len(baseline))


def test_the_forms_that_are_proposed_let_the_ids_meet():
    found = find(["SKU-12", "SKU-3"], [" sku_012", " sku_003"])
    spell = make_speller(yaml.safe_load(f"[{', '.join(found.forms)}]"))

    assert spell(["SKU-12", "SKU-3"]) == spell([" sku_012", " sku_003"])


def test_a_few_unrelated_lists_are_no_news_and_many_are():
    assert find([1, 2], [3, 4]) is None
    assert find([1, 2], [3, 4], has_many_lists=True).kind is MismatchKind.UNKNOWN


def test_most_ids_need_not_meet_and_one_is_too_few():
    ids = [f"y{n}" for n in range(40)]
    few = find(ids, [f"x{n}" for n in range(35, 70)])
    one = find(ids, [f"x{n}" for n in range(39, 70)])

    assert (few.kind, few.would_match, few.tried) == (MismatchKind.PREFIX, 5, 35)
    assert one is None


def test_the_match_is_counted_among_all_ids(monkeypatch):
    monkeypatch.setattr(id_mismatches, "_SEARCHED", 50)
    found = find([*range(99)], [f"x{7 * n % 99}" for n in range(99)])
    assert found.would_match == found.tried


def lists(*rows):
    return rankings({str(number): row for number, row in enumerate(rows)})


def look(*batches, k=None):
    found = IdComparison()
    for baseline, candidate in batches:
        arms, vocabulary = encode_arms(baseline, candidate)
        found.add(arms, vocabulary, k)
    return found.mismatches


def test_lists_that_share_a_twentieth_of_their_items_are_not_looked_into():
    assert not look((lists([*range(20)]), lists([*range(19, 39)])))
    assert not look((lists([]), lists([1])))


PADDED = parsed("""
    [[5, 6, -1, -1], [5, 8, -1, -1], 2, null]
    [[5, 6, 7, 8], [5, 8, -1, -1], 1, "candidate"]
    [[1, 2, 0, 0], [1, 2, 3, 4], 20, "baseline"]
""")


def test_an_item_that_fills_up_lists_is_padding():
    for baseline, candidate, count, arm in PADDED:
        users = count if arm else 1
        (found,) = look((lists(*[baseline] * users), lists(*[candidate] * users)))

        assert (found.kind, found.arm) == (MismatchKind.PADDING, arm)
        assert found.common == found.compared == count


def test_an_item_that_occurs_twice_by_accident_is_no_padding():
    assert not look((lists([5, 6, 6]), lists([5, 6, 7])))
    assert not look((lists([5, 6, 7, -1, -1]), lists([5, 6, 7])), k=4)


def test_ids_that_meet_in_one_batch_are_spelled_alike():
    odd = lists([42, 7]), lists(["42.0", "7.0"])
    alike = lists([5]), lists([5])
    nothing = lists([]), lists([])

    (found,) = look(odd, nothing, odd)
    assert (found.kind, found.common, found.compared) == (MismatchKind.TYPE, 0, 2)
    assert look(odd, alike, odd) == look(alike, odd) == look(nothing) == ()


def test_padding_is_counted_over_all_batches():
    padded = (lists([5, -1, -1]), lists([5, 6]))
    (found,) = look(padded, padded)

    assert (found.common, found.compared) == (2, 2)
