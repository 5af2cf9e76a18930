"""What every source, metric and receiver promises, whatever is behind it. Our own pass the same tests."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from monitor.errors import DeliveryError
from monitor.frames import compare_many
from monitor.metrics import Metric, parse
from monitor.model.arrays import Floats
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.ports import Receiver, Source
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.service.clock import SystemClock
from monitor.service.commands.receiver_test import compose_test
from monitor.sources import SOURCES, SourceOptions

SLOT = datetime(2024, 1, 8, 12, 30, tzinfo=UTC)
ODD_USERS = ["007", "a/b c?d=e&f#g%41", "Zoë 🐙", "O'Brien; DROP TABLE wide", "..x", '{user}"', "null", "NA", "{k}"]


def request(*users: str, k: int = 10, timeout_s: float = 120) -> PullRequest:
    """What an arm is asked for."""
    return PullRequest(users=pd.Index(users, dtype="str"), k=k, slot=SLOT, timeout_s=timeout_s)


def as_lists(pull: Pull) -> dict[str, list[str]]:
    """What a pull holds, as plain lists of the ids' texts."""
    table = pull.rankings
    ends = zip(table.offsets[:-1], table.offsets[1:], strict=True)
    return {user: [str(item) for item in table.items[a:b]] for user, (a, b) in zip(table.users, ends, strict=True)}


def draw_pairs(longest: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Two pairs of every two lengths, of few items and of many."""
    rng, lengths = np.random.default_rng(seed), range(longest + 1)
    sizes = [(a, b, items) for a in lengths for b in lengths for items in (longest, 13)]
    return [(rng.permutation(items)[:a].tolist(), rng.permutation(items)[:b].tolist()) for a, b, items in sizes]


class SourceContract:
    """Of sources of lists. Give the fixture ``serving``: a function of ``{user: [item, ...]}`` that gives a context manager.

    Within it these lists stand where the source reads, and it yields the options that read them, ``{kind: {...}}``.
    """

    def pulled(self, serving: Any, lists: Mapping[str, list[Any]], *users: str, k: int = 10) -> Pull:
        with serving(lists) as given, ThreadPoolExecutor(4) as threads:
            options = SourceOptions.model_validate(given)
            source: Source = replace(SOURCES[options.kind].lists, plugin=None).open(options.given)  # what it gives as it is
            pull, *others = threads.map(source.pull, [request(*users, k=k)] * 4)
        table = pull.rankings
        assert [as_lists(each) for each in others] == [as_lists(pull)] * 3, "several threads may pull at once"
        assert table.users.is_unique
        assert (str(table.users.dtype), str(table.offsets.dtype)) == ("str", "int64")
        assert (table.offsets[0], table.offsets[-1]) == (0, len(table.items))
        return pull

    def test_lists_of_those_asked_for_come_back_best_first_and_who_has_none_is_missing(self, serving: Any) -> None:
        lists = {"u1": [5, 3, 9], "u2": [9, 8, 7, 6, 5, 4, 3, 2, 1], "u3": [1], "u4": [2]}
        pull = self.pulled(serving, lists, "u3", "u1", "nobody", "u2")
        assert as_lists(pull) == {"u1": ["5", "3", "9"], "u2": list("987654321"), "u3": ["1"]}
        assert pull.failures.items() <= {("nobody", CoverageReason.MISSING)}

    def test_duplicates_and_short_lists_are_handed_on_and_ids_are_texts_as_soon_as_one_is(self, serving: Any) -> None:
        pull = self.pulled(serving, {"u1": ["a", "a", "2"], "u2": ["c"], "u3": [1, 2]}, "u1", "u2", "u3", k=5)
        assert as_lists(pull) == {"u1": ["a", "a", "2"], "u2": ["c"], "u3": ["1", "2"]}
        assert str(pull.rankings.items.dtype) == "str"

    def test_odd_user_keys_survive(self, serving: Any) -> None:
        pull = self.pulled(serving, {user: [place] for place, user in enumerate(ODD_USERS)}, *ODD_USERS)
        assert as_lists(pull) == {user: [str(place)] for place, user in enumerate(ODD_USERS)}

    @pytest.mark.parametrize("users", [(), ("u1", "u2")])
    def test_nobody_is_answered_who_was_not_asked_or_has_no_list(self, serving: Any, users: Sequence[str]) -> None:
        pull = self.pulled(serving, {} if users else {"u1": [1]}, *users)
        assert as_lists(pull) == {}
        assert set(pull.failures.values()) <= {CoverageReason.MISSING}


class MetricContract:
    """Of metrics of two lists. Give the fixture ``metric``."""

    def scores(self, metric: Metric, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], name: str = "{}") -> Floats:
        """Scores of the pairs, with all that a metric may need, which follows from the items alone, not from their names."""
        named = {item: name.format(item) for pair in pairs for items in pair for item in items}
        lists: list[Any] = [[[named[item] for item in pair[arm]] for pair in pairs] for arm in (0, 1)]
        falling: list[Any] = [[[-place for place, _ in enumerate(items)] for items in arm] for arm in lists]
        users = range(len(pairs))
        arms = [pd.DataFrame({"user": users, "items": lists[arm], "scores": falling[arm]}) for arm in (0, 1)]
        graded = {user: {named[item]: item % 3 for item in {*a, *b}} for user, (a, b) in enumerate(pairs)}
        weights = {text: 1 + item % 4 for item, text in named.items()}
        found = compare_many(arms[0], arms[1], metric, item_weights=weights, relevance=graded)
        return np.array(found[str(metric)], dtype=np.float64)

    def test_the_declared_values_are_met_exactly(self, metric: Metric) -> None:
        for length in (2, 3, 10, 49):
            top, other = range(length), range(length, 2 * length)
            found = self.scores(metric, [(top, top), (top, other), (top, []), ([], top), ([], [])])
            declared = [metric.identical, metric.disjoint, metric.one_empty, metric.one_empty, metric.both_empty]
            expected = [value if told is None else told for value, told in zip(found, declared, strict=True)]
            np.testing.assert_array_equal(found, expected, err_msg=f"{length} items")

    def test_scores_stay_in_the_declared_bounds(self, metric: Metric) -> None:
        for longest in (1, 3, 10):
            found, (low, high) = self.scores(metric, draw_pairs(longest, seed=3)), metric.bounds(longest)
            assert metric.low <= low < high <= metric.high
            assert (np.isnan(found) | ((found >= low) & (found <= high))).all()

    def test_neither_names_nor_other_users_play_a_part_nor_the_order_of_arms_where_that_is_declared(
        self, metric: Metric
    ) -> None:
        pairs = draw_pairs(10, seed=5)
        found = self.scores(metric, pairs)
        np.testing.assert_array_equal(self.scores(metric, pairs, name="item {}"), found)
        np.testing.assert_allclose(self.scores(metric, pairs[40:170]), found[40:170], rtol=0, atol=1e-12)
        if metric.is_symmetric:
            np.testing.assert_array_equal(self.scores(metric, [(b, a) for a, b in pairs]), found)

    def test_the_declared_direction_is_right_and_everything_is_told(self, metric: Metric) -> None:
        alike, unlike = self.scores(metric, [(range(6), [0, 1, 2, 3, 5, 4]), (range(6), [5, 1, 0, 4, 3, 2])])
        if metric.need != "relevance" and alike != unlike:
            assert (alike > unlike) == metric.higher_is_more_alike
        assert all((metric.source, metric.uneven, metric.ties))
        assert not (type(metric).__doc__ or "").startswith(type(metric).__name__)  # what a dataclass writes when nobody does
        assert str(parse(str(metric))) == str(metric)


class ReceiverContract:
    """Of receivers. Give the fixtures ``present`` and ``away``: options ``{kind: {...}}`` of one that is there, and is not."""

    @pytest.mark.parametrize(
        "text", ["{{ .Labels }}%s{0}", "<script>x</script>\r\nBcc: x@evil.test", "\ud800\x00\u202e", "x" * 9**6]
    )
    def test_a_firing_and_its_end_are_taken_whatever_they_say(self, present: Any, text: str) -> None:
        for message in compose_test(SystemClock()):
            changes = tuple(replace(change, reason=text, segment=text) for change in message.changes)
            self.opened(present).send(replace(message, changes=changes), now=SLOT)

    def test_one_that_is_away_is_to_be_tried_again(self, away: Any) -> None:
        with pytest.raises(DeliveryError) as caught:
            self.opened(away).send(compose_test(SystemClock())[0], now=SLOT)
        assert not caught.value.permanent

    def opened(self, options: Any) -> Receiver:
        return open_receivers([ReceiverOptions.model_validate(options)], external_url="http://rankwatch.test")[0]
