"""Both arms' ids as codes: the same by either engine, and 42 is "42"."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from monitor.kernels.finding.engines import VARIABLE
from monitor.pairing.ids import encode

TEXT, NUMBERS = pd.array(["7", "b", "42"], dtype="str"), np.array([42, 7, 42])


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize(
    ("baseline", "candidate", "codes", "ids"),
    [
        (TEXT, pd.array(["b", "c"], dtype="str"), ([0, 1, 2], [1, 3]), ["7", "b", "42", "c"]),
        (TEXT, NUMBERS, ([0, 1, 2], [2, 0, 2]), ["7", "b", "42"]),
        (NUMBERS, np.array([-1, 7]), ([0, 1, 0], [2, 1]), [42, 7, -1]),
        (NUMBERS, np.array([2**40]), ([0, 1, 0], [2]), [42, 7, 2**40]),
        (TEXT[:0], TEXT[:0], ([], []), []),
    ],
)
def test_codes_follow_first_appearance(
    baseline: Any, candidate: Any, codes: Any, ids: Any, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, engine)

    found, vocabulary = encode(baseline, candidate)

    assert tuple(part.tolist() for part in found) == codes
    assert all(part.dtype == np.int32 for part in found)
    assert vocabulary is not None
    assert vocabulary.tolist() == ids
