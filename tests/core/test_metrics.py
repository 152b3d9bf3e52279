import math

import numpy as np
import pytest

from edgekit.core.metrics import agreement, mcnemar, mean_kl, nrmse, top_k

RNG = np.random.default_rng(1)


def test_kl_of_equal_scores_is_zero_and_shifts_do_not_matter() -> None:
    scores = RNG.normal(size=(20, 10)).astype(np.float32)
    assert mean_kl(scores, scores) == 0
    assert mean_kl(scores, scores + 1000) == pytest.approx(0, abs=1e-4)


def test_kl_is_that_of_the_distributions() -> None:
    p, q = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[0.25, 0.75], [0.9, 0.1]])
    want = (0.5 * math.log(2) + 0.5 * math.log(2 / 3)) / 2
    assert mean_kl(p, q, probabilities=True) == pytest.approx(want)
    assert mean_kl(np.log(p), np.log(q)) == pytest.approx(want)


def test_kl_of_certain_and_huge_scores_is_finite() -> None:
    p, q = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert 20 < mean_kl(p, q, probabilities=True) < 30
    assert mean_kl(np.array([[1e4, -1e4]]), np.array([[-1e4, 1e4]])) == pytest.approx(2e4)


def test_rates_count_rows() -> None:
    scores = np.array([[3.0, 1, 2], [1, 1, 0], [0, 2, 1]])
    assert top_k(scores, np.array([0, 1, 2])) == pytest.approx(1 / 3)
    assert top_k(scores, np.array([0, 1, 2]), 2) == 1
    assert agreement(scores, scores[:, ::-1]) == pytest.approx(1 / 3)


def test_nrmse_is_relative_and_never_hides_a_wrong_answer() -> None:
    want = np.array([3.0, 4.0], np.float32)
    assert nrmse(want, want) == 0
    assert nrmse(want * 1.1, want) == pytest.approx(0.1, rel=1e-5)
    assert nrmse(want[:, None], want) == math.inf
    assert nrmse(np.array([np.nan, 4.0]), want) == math.inf
    assert nrmse(np.array([0.5, 0.0]), np.zeros(2)) == 0.5
    assert nrmse(np.array([250, 10], np.uint8), np.array([10, 250], np.uint8)) > 1
    assert nrmse(np.zeros((0, 2)), np.zeros((0, 2))) == 0


def test_mcnemar_is_exact_and_symmetric() -> None:
    a, b = np.array([1, 1, 1, 0, 0]) > 0, np.array([1, 0, 0, 0, 1]) > 0
    assert mcnemar(a, b).p_value == 1.0
    assert mcnemar(a, a).p_value == 1.0
    many = np.ones(3000, np.bool_)
    assert mcnemar(many, ~many).p_value == pytest.approx(0, abs=1e-300)
    assert (mcnemar(a, b).only_first, mcnemar(b, a).only_first) == (2, 1)
