import numpy as np
import pytest

from monitor.demo.world import PurchaseHistory, World

DAY = 12


@pytest.fixture(scope="module")
def history() -> PurchaseHistory:
    return World().history(DAY)


def test_a_seed_and_a_day_give_their_history_whatever_was_asked_before(
    history: PurchaseHistory,
) -> None:
    world = World()
    world.history(3)
    again = world.history(DAY)
    assert again.users.ids == history.users.ids
    assert np.array_equal(again.bought, history.bought)
    assert again.activities == history.activities
    assert not np.array_equal(World(seed=8).history(DAY).bought, history.bought)


def test_history_is_zero_or_one_for_1500_users_and_800_items(history: PurchaseHistory) -> None:
    assert history.bought.shape == (1500, 800)
    assert set(np.unique(history.bought)) == {0.0, 1.0}


def test_each_day_some_users_join_as_many_go_and_nobody_changes_country() -> None:
    world = World()
    today, tomorrow = world.users(DAY), world.users(DAY + 1)
    assert len(set(today.ids)) == len(today.ids)
    assert len(set(tomorrow.ids) - set(today.ids)) == world.joining
    assert set(today.ids) - set(tomorrow.ids) == set(world.left_on(DAY + 1))
    assert len(world.left_on(DAY + 1)) == world.joining
    assert today.countries[world.joining :].tolist() == tomorrow.countries[: -world.joining].tolist()


def test_a_day_that_stays_in_the_window_keeps_its_purchases() -> None:
    world = World(window=2)
    first, second = world.history(DAY), world.history(DAY + 1)
    one_day = World(window=1).history(DAY)
    stayed = slice(world.joining, None)
    bought_on_the_day = one_day.bought[stayed] > 0
    assert bought_on_the_day.any()
    assert (first.bought[stayed][bought_on_the_day] == 1).all()
    assert (second.bought[: -world.joining][bought_on_the_day] == 1).all()


def test_popularity_has_a_long_tail(history: PurchaseHistory) -> None:
    buyers = np.sort(history.bought.sum(axis=0))[::-1]
    assert buyers[:80].sum() > 0.3 * buyers.sum()
    assert buyers[400:].sum() < 0.3 * buyers.sum()


def test_users_of_one_taste_buy_more_alike_than_users_of_another(history: PurchaseHistory) -> None:
    main = history.users.tastes.argmax(axis=1)
    is_clear = history.users.tastes.max(axis=1) > 0.8
    bought = history.bought[is_clear]
    common = bought @ bought.T
    np.fill_diagonal(common, np.nan)
    same = main[is_clear][:, None] == main[is_clear][None, :]
    assert np.nanmean(common[same]) > 3 * np.nanmean(common[~same])


def test_those_who_joined_today_have_bought_little(history: PurchaseHistory) -> None:
    bought = history.bought.sum(axis=1)
    assert bought[-15:].mean() < 0.2 * bought[:-450].mean()


def test_activity_follows_from_what_was_bought() -> None:
    history = World().history(0)
    bought = np.zeros((3, 40), dtype=np.float32)
    bought[0, :14], bought[1, :15], bought[2, :35] = 1, 1, 1
    small = PurchaseHistory(users=history.users.rows(0, 3), bought=bought)
    assert small.activities == ["low", "mid", "high"]
