"""How often the estimators of unpaired comparisons err in healthy tests, and how soon they see faults.

`make bench ARGS="unpaired --repetitions 500 --trainings 40"` is a quick look.

Each repetition splits one pool of users at random. Each run draws a training of each arm. A model has popularity and 16
factors, and each training changes items and users at random. The scores are like those of a real shop: mean 0.65, deviation
0.16, one user in 200 below 0.05, and days with a self gap beyond 3 errors are common.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import default_rng

from bench import parse_options, show
from monitor.measures.kernels import align
from monitor.measures.kernels.rbo.untied import rbo
from monitor.model.rankings import PairBatch
from monitor.model.rules import Direction
from monitor.statistics.reference.prediction import compute_p_values, compute_reference
from monitor.statistics.reference.sampling_error import to_angle
from monitor.statistics.sequential.gate import Scale, follow_capital
from monitor.statistics.unpaired import arms_differed
from monitor.statistics.unpaired.far_lists import FAR_SHARE
from monitor.statistics.unpaired.rollout import pair_scores
from monitor.statistics.unpaired.split import SPLIT_OFF, log_evidence

ITEMS, FACTORS, K, P = 2_000, 16, 10, 0.9
POPULARITY, TRAINING, UNSTABLE = 0.4, 0.15, 0.7
INTENSITY = 0.045
"""How much the distances differ by which trainings change lists. 38 % of healthy days are beyond 3 errors."""
OTHER_MODEL = 0.05
CUTS = (0.025, FAR_SHARE, 0.1, 0.25)
FAR_COLUMN = 2 + CUTS.index(FAR_SHARE)
EARLIER = 30
USERS = 10_000
STATED = 90.0
FAULTS = {
    "5 % of users mixed up": ("mixed", 0.05),
    "1 % of users mixed up": ("mixed", 0.01),
    "1 % with the popular list": ("popular", 0.01),
    "top three reversed": ("reversed", 1.0),
}
WORLDS = {
    "5,000 and 5,000 users": (USERS, 0.5),
    "500 and 500 users": (1_000, 0.5),
    "9,000 and 1,000 users": (USERS, 0.9),
}
PART = 200


@dataclass
class Pool:
    """For each training and user, the `features` of the score, float32 (trainings, users, features)."""

    before: Any
    baseline: Any
    candidate: Any  # by fault, and `healthy`  # type: ignore[type-arg]


def score(now, before):
    lengths = np.full(len(now), K, dtype=np.int32)
    batch = PairBatch(
        baseline=before, candidate=now, baseline_lengths=lengths, candidate_lengths=lengths
    )
    return rbo(align(batch), P)


def features(scores, is_shared):
    """Score, square, whether it is below each cut, and whether many users have the list."""
    columns = [scores, scores**2, *(scores < cut for cut in CUTS), is_shared]
    return np.stack(columns, axis=-1).astype(np.float32)


class Model:
    """An arm's recommender. Both arms have the same users and nearly the same items."""

    def __init__(self, seed, users, other=0.0):
        rng = default_rng(seed)
        activity = rng.gamma(4, 1 / 4, size=(users, 1))
        self.users = rng.normal(size=(users, FACTORS)) * activity
        self.unstable = UNSTABLE * np.exp(0.6 * rng.normal(size=(users, 1)))
        self.popularity = rng.normal(size=ITEMS) * POPULARITY
        self.items = rng.normal(size=(ITEMS, FACTORS)) / math.sqrt(FACTORS)
        self.items += other * rng.normal(size=(ITEMS, FACTORS)) / math.sqrt(FACTORS)

    def train(self, rng):
        """Lists of all users after another training, int32 (users, K)."""
        noise = TRAINING * math.exp(INTENSITY * rng.normal())
        items = self.items + noise * rng.normal(size=self.items.shape) / math.sqrt(FACTORS)
        users = self.users + noise * self.unstable * rng.normal(size=self.users.shape)
        lists = np.empty((len(users), K), dtype=np.int32)
        for low in range(0, len(users), 1000):
            values = users[low : low + 1000].astype(np.float32) @ items.T.astype(np.float32)
            values += self.popularity.astype(np.float32)
            top = np.argpartition(-values, K, axis=1)[:, :K]
            order = np.argsort(-np.take_along_axis(values, top, axis=1), axis=1)
            lists[low : low + 1000] = np.take_along_axis(top, order, axis=1)
        return lists


def find_shared(lists):
    """The users who have the most common list."""
    _, number, count = np.unique(lists, axis=0, return_inverse=True, return_counts=True)
    return number.ravel() == count.argmax()


def make_pool(users, trainings):
    """All scores that are needed. They are drawn once, because drawing lists takes most of the time."""
    rng = default_rng(1)
    baseline, candidate = Model(2, users), Model(2, users, OTHER_MODEL)
    before = baseline.train(rng)
    of_baseline = []
    of_candidate = {name: [] for name in ("healthy", "mixed", "popular", "reversed")}
    for _ in range(trainings):
        lists = baseline.train(rng)
        of_baseline.append(features(score(lists, before), find_shared(lists)))
        lists = candidate.train(rng)
        popular = np.argsort(-np.bincount(lists.ravel(), minlength=ITEMS))[:K].astype(np.int32)
        faulty = {
            "healthy": lists,
            "mixed": lists[rng.permutation(users)],
            "popular": np.tile(popular, (users, 1)),
            "reversed": lists[:, [2, 1, 0, *range(3, K)]],
        }
        for name, changed in faulty.items():
            is_shared = np.full(users, name == "popular")
            if name != "popular":
                is_shared = find_shared(changed)
            of_candidate[name].append(features(score(changed, before), is_shared))
    return Pool(
        before=before,
        baseline=np.stack(of_baseline),
        candidate={name: np.stack(each) for name, each in of_candidate.items()},
    )


def gaps_of(baseline, candidate, n_baseline, n_candidate):
    """Values and errors of all looks, (..., looks), from sums of features.

    They are computed as in `mean_gap`, `angle_gap` and `share_gap`.
    """
    values, errors = [], []
    for sums, n in ((baseline, n_baseline), (candidate, n_candidate)):
        mean = sums[..., :1] / n
        error = np.sqrt((sums[..., 1:2] / n - mean**2) / (n - 1))
        angle, angle_error = to_angle(sums[..., 2:] / n, n)
        share = sums[..., [FAR_COLUMN]] / n
        smooth = (sums[..., [FAR_COLUMN]] + 1) / (n + 2)
        share_error = np.sqrt(smooth * (1 - smooth) / (n + 2))
        angle_error = np.broadcast_to(angle_error, angle.shape)
        values.append(np.concatenate((mean, -angle, -share), axis=-1))
        errors.append(np.concatenate((error, angle_error, share_error), axis=-1))
    return values[0] - values[1], np.hypot(*errors)


def observe(pool, users, planned, rng):
    """Compute one part of the repetitions.

    Returns values and errors of A/A tests, of runs, and of the last run with each fault.
    """
    is_candidate = rng.random((PART, users)) >= planned
    n_candidate = is_candidate.sum(axis=1)[:, np.newaxis, np.newaxis]
    n_baseline = users - n_candidate
    rows = np.arange(PART)[:, np.newaxis]
    runs = [
        rng.random((PART, len(pool.baseline))).argsort(axis=1)[:, : EARLIER + 1] for _ in range(2)
    ]

    def add_up(mask, by_training):
        width = by_training.shape[-1]
        matrix = by_training[:, :users].transpose(1, 0, 2).reshape(users, -1)
        return (mask.astype(np.float32) @ matrix).reshape(PART, -1, width).astype(np.float64)

    of_baseline = add_up(~is_candidate, pool.baseline)
    same = add_up(is_candidate, pool.baseline)[:, :1]
    same_training = gaps_of(of_baseline[:, :1], same, n_baseline, n_candidate)
    of_baseline = of_baseline[rows, runs[0]]
    of_candidate = add_up(is_candidate, pool.candidate["healthy"])[rows, runs[1]]
    healthy = gaps_of(of_baseline, of_candidate, n_baseline, n_candidate)
    last = runs[1][:, -1]
    found = {}
    for name, (kind, share) in FAULTS.items():
        repetition, user = np.nonzero(is_candidate & (rng.random((PART, users)) < share))
        training = last[repetition]
        change = pool.candidate[kind][training, user].astype(np.float64)
        change -= pool.candidate["healthy"][training, user]
        sums = of_candidate[:, -1].copy()
        for column in range(sums.shape[-1]):
            sums[:, column] += np.bincount(repetition, change[:, column], minlength=PART)
        values, errors = gaps_of(of_baseline[:, -1:], sums[:, np.newaxis], n_baseline, n_candidate)
        found[name] = values[:, 0], errors[:, 0]
    return same_training, healthy, found


def judge(healthy, now):
    """p of the last run of each repetition and look, (PART, looks), from EARLIER healthy runs."""
    values, errors = (each[:, :EARLIER].transpose(1, 0, 2).reshape(EARLIER, -1) for each in healthy)
    p = compute_p_values(
        compute_reference(values, errors), now[0].ravel(), now[1].ravel(), direction=Direction.ABOVE
    )
    return p.reshape(now[0].shape)


def watch(pool, users, planned, repetitions):
    """z of A/A tests and of healthy runs, p of healthy runs, and p of runs with each fault, (repetitions, looks)."""
    rng = default_rng(3)
    same, days, p_healthy = [], [], []
    p_faults = {name: [] for name in FAULTS}
    for _ in range(-(-repetitions // PART)):
        same_training, healthy, found = observe(pool, users, planned, rng)
        same.append((same_training[0] / same_training[1])[:, 0])
        days.append((healthy[0] / healthy[1])[:, -1])
        p_healthy.append(judge(healthy, [each[:, -1] for each in healthy]))
        for name, now in found.items():
            p_faults[name].append(judge(healthy, now))
    joined = {name: np.concatenate(each) for name, each in p_faults.items()}
    return np.concatenate(same), np.concatenate(days), np.concatenate(p_healthy), joined


def percent(flags, digits=2):
    return f"{100 * np.mean(flags):.{digits}f} %"


LOOKS = (
    "self gap",
    *(f"far gap below {cut:g}" for cut in CUTS),
    "shared list",
    "share of far lists",
)
DEFAULT = [0, 1 + CUTS.index(FAR_SHARE), 1 + len(CUTS)]


def show_gaps(pool, repetitions):
    false, power = [], []
    for world, (users, planned) in WORLDS.items():
        same, days, p_healthy, p_faults = watch(pool, users, planned, repetitions)
        for look, name in enumerate(LOOKS):
            false.append(
                (
                    f"{world}: {name}",
                    percent(np.abs(same[:, look]) > 2.5758),
                    percent(p_healthy[:, look] <= 0.01),
                    percent(np.abs(days[:, look]) > 3, 0),
                )
            )
        for name, p in p_faults.items():
            looks = [percent(p[:, look] <= 1 / STATED, 1) for look in range(len(LOOKS))]
            both = [
                percent((p[:, DEFAULT] <= share / len(DEFAULT)).any(axis=1), 1)
                for share in (1 / STATED, 1 / STATED / 5)
            ]
            power.append((f"{world}: {name}", *looks, *both))
    show(
        f"Healthy tests, {repetitions:,} repetitions",
        ("look", "A/A beyond 1 %", "learned limit at 1 %", "days with |z| > 3"),
        false,
    )
    show(
        f"Seen in one run, after {EARLIER} healthy runs, wrong in one of {STATED:g}",
        ("fault", *LOOKS, "self, far or shared", "by the budget"),
        power,
    )


def count_split_off(repetitions, planned=0.5, looks=100, users=2_000):
    """The share of tests with a planned split that are ever off, by the evidence and by chi-square at 0.001."""
    rng = default_rng(5)
    off = chi_square = 0
    totals = users * np.arange(1, looks + 1)
    for _ in range(repetitions):
        baseline = np.cumsum(rng.binomial(users, planned, looks))
        z = (baseline - planned * totals) / np.sqrt(totals * planned * (1 - planned))
        chi_square += np.abs(z).max() > 3.2905
        pairs = zip(baseline.tolist(), (totals - baseline).tolist(), strict=True)
        off += any(log_evidence(*pair, planned) >= SPLIT_OFF for pair in pairs)
    return percent(
        off / repetitions, 3
    ), f"chi-square at each look {percent(chi_square / repetitions)}"


def count_wrong_safe(pool, repetitions, alpha=0.01):
    """The share of tests at the margin that are ever `safe`, read after each pair."""
    rng = default_rng(6)
    scale, users, wrong = Scale(-1, 1), pool.baseline.shape[1], 0
    for _ in range(repetitions):
        runs = rng.integers(len(pool.baseline), size=2)
        baseline, candidate = pool.baseline[runs[0], :, 0], pool.candidate["healthy"][runs[1], :, 0]
        margin = scale.margin(float(baseline.mean(dtype=float) - candidate.mean(dtype=float)))
        drawn = rng.integers(users, size=(2, 2_000))
        scores = pair_scores(baseline[drawn[0]], candidate[drawn[1]], rng)
        wrong += follow_capital(scale.to_unit(scores), margin).max() >= -math.log(alpha)
    return percent(wrong / repetitions), "read after each of 2,000 pairs"


def count_differed(pool, repetitions, users=2_000, hit=0.0):
    """The share of tests whose arms differed before. A share ``hit`` of the candidate's users have no pre-test list."""
    rng = default_rng(7)
    differed = 0
    for _ in range(repetitions):
        rows = rng.permutation(len(pool.before))[:users]
        is_candidate = rng.random(users) < 0.5
        lists = pool.before[rows].copy()
        lists[is_candidate & (rng.random(users) < hit)] = -1
        hashes = rng.integers(0, 2**63, users).astype(np.uint64)
        p_value = arms_differed.compare_before(lists, is_candidate, hashes)
        differed += p_value is not None and p_value <= arms_differed.HIGHEST_P
    return percent(differed / repetitions, 3)


def main(arguments):
    options = parse_options(arguments, repetitions=10_000, trainings=64)
    repetitions = options.repetitions
    pool = make_pool(USERS, options.trainings)
    show_gaps(pool, repetitions)
    rows = [
        ("split off in 100 looks", *count_split_off(repetitions)),
        ("wrong `safe` at the margin, 1 % allowed", *count_wrong_safe(pool, repetitions)),
        ("arms differed before", count_differed(pool, repetitions), "2,000 users"),
    ]
    for hit in (0.02, 0.03):
        seen = count_differed(pool, min(repetitions, 200), users=len(pool.before), hit=hit)
        rows.append((f"arms differed: {100 * hit:g} % without a list", seen, "all users"))
    show("Other checks", ("check", "share of tests", "figures"), rows)
