"""Tests that every source, metric and receiver must pass, in rankwatch and in plugins."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from monitor.measures.frames import compare_many
from monitor.measures.metrics import Metric, parse
from monitor.model.errors import DeliveryError
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.service.clock import SystemClock
from monitor.service.commands.receiver_test import compose_test
from monitor.sources import SourceOptions, open_source

SLOT = datetime(2024, 1, 8, 12, 30, tzinfo=UTC)
UNUSUAL_USERS = [
    "007",
    "a/b c?d=e&f#g%41",
    "Zoë 🐙",
    "O'Brien; DROP TABLE wide",
    "..x",
    '{user}"',
    "null",
    "NA",
    "{k}",
]
HOSTILE = [
    "{{ .Labels }}%s{0}",
    "<script>x</script>\r\nBcc: x@evil.test",
    "\ud800\x00\u202e",
    "x" * 500_000,
]


def request(*users: str, k: int = 10, timeout_s: float = 120) -> PullRequest:
    """Return a request for the lists of these users."""
    return PullRequest(users=pd.Index(users, dtype="str"), k=k, slot=SLOT, timeout_s=timeout_s)


def as_lists(pull: Pull) -> dict[str, list[str]]:
    """Return the lists of a pull by user. All ids are texts."""
    items = list(map(str, pull.rankings.items))
    return {
        user: items[a:b]
        for user, (a, b) in zip(pull.rankings.users, pairwise(pull.rankings.offsets), strict=True)
    }


class SourceContract:
    """The contract of sources of lists.

    Define the fixture ``serving``. It is a function that takes lists, ``{user: [item, ...]}``, and
    returns a context manager.

    The context manager makes the lists readable for your source until its block ends. It yields the
    options of your source, ``{kind: {...}}``.
    """

    def pulled(
        self,
        serving: Any,
        lists: dict[str, Any],
        *users: str,
        k: int = 10,
    ) -> Pull:
        with serving(lists) as options, ThreadPoolExecutor(4) as threads:
            source = open_source(SourceOptions.model_validate(options))
            pull, *others = threads.map(source.pull, [request(*users, k=k)] * 4)
        assert [as_lists(other) for other in others] == [as_lists(pull)] * 3, (
            "several threads may pull at the same time"
        )
        assert set(pull.failures.values()) <= {CoverageReason.MISSING}
        return pull

    def test_requested_lists_are_returned_with_the_best_item_first(self, serving: Any) -> None:
        lists = {"u1": [5, 3, 9], "u2": [9, 8, 7, 6, 5, 4, 3, 2, 1], "u3": [1], "u4": [2]}
        pull = self.pulled(serving, lists, "u3", "u1", "nobody", "u2")
        assert as_lists(pull) == {"u1": ["5", "3", "9"], "u2": list("987654321"), "u3": ["1"]}

    def test_duplicates_and_short_lists_are_kept_and_all_ids_are_texts_if_one_is(
        self, serving: Any
    ) -> None:
        pull = self.pulled(
            serving,
            {"u1": ["a", "a", "2"], "u2": ["c"], "u3": [1, 2]},
            "u1",
            "u2",
            "u3",
            k=5,
        )
        assert as_lists(pull) == {"u1": ["a", "a", "2"], "u2": ["c"], "u3": ["1", "2"]}
        assert str(pull.rankings.items.dtype) == "str"

    def test_unusual_user_ids_stay_unchanged(self, serving: Any) -> None:
        pull = self.pulled(
            serving, {user: [place] for place, user in enumerate(UNUSUAL_USERS)}, *UNUSUAL_USERS
        )
        assert as_lists(pull) == {user: [str(place)] for place, user in enumerate(UNUSUAL_USERS)}

    @pytest.mark.parametrize("lists, users", [({"u1": [1]}, ()), ({}, ("u1", "u2"))])
    def test_only_requested_users_with_a_list_get_a_list(
        self,
        serving: Any,
        lists: Any,
        users: Any,
    ) -> None:
        assert as_lists(self.pulled(serving, lists, *users)) == {}


class MetricContract:
    """The contract of metrics of two lists. Define the fixture ``metric``, which is your metric."""

    def scores(self, metric: Metric, pairs: list[Any], name: str = "{}") -> Any:
        """Return the scores of pairs of lists. ``name`` is a pattern for the ids of items.

        The pattern changes neither the weights of items, nor relevance, nor the models' scores.
        """
        items: Any = [
            [[name.format(item) for item in pair[arm]] for pair in pairs] for arm in (0, 1)
        ]
        model_scores: Any = [[[*range(0, -len(ranking), -1)] for ranking in arm] for arm in items]
        arms = [
            pd.DataFrame(
                {"user": range(len(pairs)), "items": items[arm], "scores": model_scores[arm]}
            )
            for arm in (0, 1)
        ]
        grades = {
            user: {name.format(item): item % 3 for item in {*a, *b}}
            for user, (a, b) in enumerate(pairs)
        }
        weights = {name.format(item): 1 + item % 4 for item in range(100)}
        return compare_many(arms[0], arms[1], metric, item_weights=weights, relevance=grades)[
            str(metric)
        ].to_numpy()

    def test_the_declared_values_are_exact_and_all_facts_are_declared(self, metric: Metric) -> None:
        for length in (2, 3, 10, 49):
            top = range(length)
            other = range(length, 2 * length)
            scores = self.scores(metric, [(top, top), (top, other), (top, []), ([], top), ([], [])])
            declared = [
                metric.identical,
                metric.disjoint,
                metric.one_empty,
                metric.one_empty,
                metric.both_empty,
            ]
            expected = [
                score if value is None else value
                for score, value in zip(scores, declared, strict=True)
            ]
            np.testing.assert_array_equal(scores, expected, err_msg=f"{length} items")
        assert all((metric.source, metric.uneven, metric.ties))
        assert not (type(metric).__doc__ or "").startswith(
            type(metric).__name__
        )  # a dataclass without a docstring gets one that begins with its name
        assert str(parse(str(metric))) == str(metric)

    def test_scores_stay_in_range_and_do_not_depend_on_item_ids_or_other_users(
        self, metric: Metric
    ) -> None:
        rng = np.random.default_rng(5)
        pairs = [
            [rng.permutation(n)[:size].tolist() for size in sizes]
            for n in (10, 13)
            for sizes in product(range(11), repeat=2)
        ]
        scores = self.scores(metric, pairs)
        low, high = metric.bounds(10)
        assert metric.low <= low < high <= metric.high
        assert (np.isnan(scores) | ((scores >= low) & (scores <= high))).all()
        np.testing.assert_array_equal(self.scores(metric, pairs, name="item {}"), scores)
        np.testing.assert_allclose(
            self.scores(metric, pairs[40:170]),
            scores[40:170],
            rtol=0,
            atol=1e-12,
        )
        if metric.is_symmetric:
            np.testing.assert_array_equal(self.scores(metric, [(b, a) for a, b in pairs]), scores)

    def test_the_declared_direction_is_right(self, metric: Metric) -> None:
        similar, different = self.scores(
            metric, [(range(6), [0, 1, 2, 3, 5, 4]), (range(6), [5, 1, 0, 4, 3, 2])]
        )
        assert (
            metric.need == "relevance"
            or similar == different
            or (similar > different) == metric.higher_is_more_alike
        )


class ReceiverContract:
    """The contract of receivers.

    Define the fixtures ``present`` and ``away``. Each returns the options of a receiver, ``{kind:
    {...}}``. With ``present`` the receiver answers. With ``away`` nothing answers.
    """

    def send(self, options: Any, text: str) -> None:
        (receiver,) = open_receivers(
            [ReceiverOptions.model_validate(options)], external_url="http://rankwatch.test"
        )
        for message in compose_test(SystemClock()):
            changes = tuple(
                replace(change, reason=text, segment=text) for change in message.changes
            )
            receiver.send(replace(message, changes=changes), now=SLOT)

    @pytest.mark.parametrize("text", HOSTILE, ids=["template", "markup", "controls", "huge"])
    def test_a_firing_and_its_end_are_accepted_with_any_text(self, present: Any, text: str) -> None:
        self.send(present, text)

    def test_an_error_of_an_unreachable_receiver_is_not_permanent(self, away: Any) -> None:
        with pytest.raises(DeliveryError) as caught:
            self.send(away, "nobody receives this")
        assert not caught.value.permanent
