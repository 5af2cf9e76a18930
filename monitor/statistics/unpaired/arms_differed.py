"""Checks whether the arms differed before the test began.

If users are assigned at random, both arms' pre-test lists come from one population. Then a p-value
is valid, although it would not be valid for the current lists.
"""

import numpy as np

from monitor.model.arrays import Codes, Flags, Floats, Hashes, Integers

HIGHEST_P = 0.001
"""The arms differed if p is at most this value."""
MOST_TESTED_USERS = 20_000
"""At most this many users are compared."""
_COORDINATES = 256
_BLOCK = 32
# Of 10,000 users, 2 % of the candidate's users with another first item are seen in 30 % of tests.
# With 0.9 they are not seen, and other faults are seen equally often.
_PERSISTENCE = 0.7
_ROUNDING = 1e-9
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def compare_before(codes: Codes, is_candidate: Flags, hashes: Hashes) -> float | None:
    """Test whether the users' pre-test lists depend on their arm. Returns p.

    None if an arm has no users.

    - ``codes``: the pre-test list of each user, int32 (n, k), with -1 for no item. A user without
      a pre-test list has an empty list. So arms that lose different users also differ. If users
      enter because of what an arm does, leave out users without a pre-test list.
    - ``is_candidate``: whether the user is in the candidate, bool (n,).
    - ``hashes``: a random number for each user, uint64 (n,), that does not depend on the arm. The
      MOST_TESTED_USERS smallest hashes are compared. Their order decides the permutations.

    Each list is a vector, in which the item at place r, from 0, has the weight 0.7^(r/2). The
    distance of the arms is the squared distance of their mean vectors. The vectors are hashed to
    256 coordinates (Weinberger et al. 2009), which keeps distances in expectation. A second
    distance compares the arms' shares of lists of each length. Both distances are divided by their
    standard deviations and added.

    The users are ordered by hash, and the arms are shifted along the users by 0 to n - 1 users.
    These n shifts are a group of permutations, so p is exact (Hemerik and Goeman 2018). It is the
    share of shifts whose distance is at least as large as the distance without a shift. The cost is
    one Fourier transform for each coordinate.

    If the arms are assigned at random, the chance of p <= HIGHEST_P is at most HIGHEST_P in one
    test. This is not true for many tests. Tests of the same users are no new chances, since they
    have the same p. With fewer than 1 / HIGHEST_P users, p is always above HIGHEST_P.
    """
    order = np.argsort(hashes, kind="stable")[:MOST_TESTED_USERS]
    arms = is_candidate[order].astype(float)
    users = len(order)
    if not 0 < arms.sum() < users:
        return None
    lists = codes[order]
    distances = _distances_by_shift(_hash_lists(lists), arms)
    distances += _distances_by_shift(_mark_lengths(lists), arms)
    is_as_far = distances >= distances[0] * (1 - _ROUNDING)
    return float(is_as_far.mean())


def _distances_by_shift(vectors: Floats, arms: Floats) -> Floats:
    """The distance of the arms after each shift, (n,), in standard deviations over all shifts.

    ``arms`` is 1 for users of the candidate, and 0 for users of the baseline. It is shifted by 0 to
    n - 1 users. The distances are 0 if all vectors are equal.
    """
    users, coordinates = vectors.shape
    spectrum = np.conj(np.fft.rfft(arms))[:, np.newaxis]
    distances = np.zeros(users)
    for low in range(0, coordinates, _BLOCK):
        block = vectors[:, low : low + _BLOCK]
        centered = block - block.mean(axis=0)
        sums = np.fft.irfft(np.fft.rfft(centered, axis=0) * spectrum, n=users, axis=0)
        distances += np.square(sums).sum(axis=1)
    deviation = float(distances.std())
    if deviation <= _ROUNDING * users:
        return np.zeros(users)
    distances /= deviation
    return distances


def _mark_lengths(codes: Codes) -> Floats:
    """A vector for each list, (n, steps + 1), with a 1 at the list's length and 0 elsewhere.

    If k is large, the lengths are rounded up to fewer steps. Only empty lists are in step 0.
    """
    k = codes.shape[1]
    steps = min(k, _BLOCK - 1)
    lengths = (codes >= 0).sum(axis=1)
    step_of_list = -(-lengths * steps // k)  # rounded up
    vectors: Floats = np.eye(steps + 1)[step_of_list]
    return vectors


def _hash_lists(codes: Codes) -> Floats:
    """The vector of each list's items, (n, _COORDINATES)."""
    users, k = codes.shape
    vectors = np.zeros(users * _COORDINATES)
    first_coordinates = np.arange(users) * _COORDINATES
    for place in range(k):
        is_item = codes[:, place] >= 0
        coordinates, signs = _hash(codes[is_item, place])
        indexes = first_coordinates[is_item] + coordinates
        vectors[indexes] += signs * _PERSISTENCE ** (place / 2)
    return vectors.reshape(users, _COORDINATES)


def _hash(codes: Integers) -> tuple[Integers, Floats]:
    """A pseudo-random coordinate for each code, and a pseudo-random sign, which is 1 or -1."""
    mixed = codes.astype(np.int64).astype(np.uint64) * _MULTIPLIER
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _MULTIPLIER
    coordinates = (mixed >> np.uint64(56)).astype(np.int64)
    signs = ((mixed >> np.uint64(55)) & np.uint64(1)).astype(float)
    return coordinates, 2 * signs - 1
