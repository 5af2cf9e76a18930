import numpy as np
import numpy.typing as npt
import pytest

from monitor.demo.recommenders import cosine_weights, ease_weights, popular, top_items

Matrix = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def bought() -> Matrix:
    return (np.random.default_rng(5).random((60, 17)) < 0.25).astype(np.float32)


def test_ease_is_a_ridge_regression_of_each_item_on_all_others(bought: Matrix) -> None:
    weights = ease_weights(bought, ridge=3.0)
    for item in range(bought.shape[1]):
        others = np.delete(np.arange(bought.shape[1]), item)
        features = bought[:, others].astype(float)
        # Ridge as ordinary least squares with one more row a feature.
        stacked = np.vstack([features, np.sqrt(3.0) * np.eye(len(others))])
        target = np.concatenate([bought[:, item], np.zeros(len(others))])
        expected = np.linalg.lstsq(stacked, target, rcond=None)[0]
        assert np.allclose(weights[others, item], expected, atol=1e-5)
        assert weights[item, item] == 0.0


def test_cosine_weights_are_the_shrunk_cosine_worked_by_hand() -> None:
    bought = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]], dtype=np.float32)
    weights = cosine_weights(bought, shrinkage=1.0, neighbours=3)
    first_second = 2 / (np.sqrt(4 * 2) + 1)
    first_third = 1 / (np.sqrt(4 * 1) + 1)
    expected = [[0, first_second, first_third], [first_second, 0, 0], [first_third, 0, 0]]
    assert np.allclose(weights, expected)


def test_cosine_weights_agree_with_a_naive_double_loop(bought: Matrix) -> None:
    weights = cosine_weights(bought, shrinkage=2.0, neighbours=4)
    items = range(bought.shape[1])
    for column in items:
        cosines = []
        for row in items:
            together = float(bought[:, row] @ bought[:, column])
            lengths = float(np.linalg.norm(bought[:, row]) * np.linalg.norm(bought[:, column]))
            cosines.append(0.0 if row == column else together / (lengths + 2.0))
        fourth = sorted(cosines, reverse=True)[3]
        kept = weights[:, column]
        assert np.count_nonzero(kept) <= 4
        for row in items:
            if cosines[row] > fourth + 1e-9:
                assert kept[row] == pytest.approx(cosines[row], rel=1e-6)
            elif cosines[row] < fourth - 1e-9:
                assert kept[row] == 0.0


def test_popular_counts_buyers_and_breaks_ties_by_item() -> None:
    bought = np.array([[0, 1, 1, 1], [0, 0, 1, 1], [1, 0, 0, 0]], dtype=np.float32)
    assert popular(bought, depth=3).tolist() == [2, 3, 0]


def test_top_items_leaves_out_what_the_user_owns_and_falls_back_for_the_new_user() -> None:
    bought = np.array([[1, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    weights = np.array([[9, 1, 3, 2], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    fallback = np.array([1, 0], dtype=np.intp)
    assert top_items(bought, weights, fallback=fallback).tolist() == [[2, 3], [1, 0]]
