"""The angular scale, on which a share of users varies alike wherever it lies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.reference.history import Floats


def to_angle(share: npt.ArrayLike, users: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Angle of a share in [0, 1] of n >= 1 users, in radians within (0, pi / 2), and its standard error 1 / (2 sqrt(n + 1/2)).

    arcsin sqrt((x + 3/8) / (n + 3/4)) for x users (Anscombe 1948). On this scale a prediction by Student's t holds its rate for
    rare shares too, where the share itself is skewed, and the error is never 0: no run says that a fault is impossible.
    """
    n = np.asarray(users, dtype=np.float64)
    affected = np.asarray(share, dtype=np.float64) * n
    return np.arcsin(np.sqrt((affected + 0.375) / (n + 0.75))), 0.5 / np.sqrt(n + 0.5)


def from_angle(angle: npt.ArrayLike, users: npt.ArrayLike) -> Floats:
    """The share of n users whose angle this is, within [0, 1]: brings limits back to what people read."""
    n = np.asarray(users, dtype=np.float64)
    bounded = np.clip(np.asarray(angle, dtype=np.float64), 0.0, np.pi / 2)
    share: Floats = np.clip(((n + 0.75) * np.sin(bounded) ** 2 - 0.375) / n, 0.0, 1.0)
    return share
