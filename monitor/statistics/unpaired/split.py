"""Checks whether the numbers of users of both arms fit the planned split, at any time.

A difference is called a sample ratio mismatch (Fabijan et al., KDD 2019). It means that users get
lost or are assigned in a wrong way. Then no other comparison of the arms can be trusted.
"""

import math

import numpy as np

from monitor.model.unpaired import ENOUGH_EVIDENCE

SPLIT_OFF = math.log(ENOUGH_EVIDENCE)
"""The split is off if the evidence is at least this value.

If the split is as planned, the chance that this ever happens is at most 0.001. In 10,000 tests with
100 looks (the benchmark ``unpaired``) it happened in three. A chi-square test at each look had 157
false alerts.
"""
PRIOR_USERS = (10.0, 100.0, 1_000.0, 10_000.0)
"""How many users each prior is worth.

Lindon and Malek (2020) use the last value, which finds small differences among many users first.
But with it alone, 300 users who are all in one arm are not enough evidence against equal shares.
The other priors find large differences among few users.
"""


def log_evidence(baseline: int, candidate: int, planned: float) -> float:
    """The natural logarithm of the evidence against the planned split, a finite float.

    ``baseline`` and ``candidate`` are the numbers of distinct users that each arm has had since the
    test began. ``planned`` is the baseline's planned share of all users.

    The evidence is the mean of `log_evidence_of_prior` over `PRIOR_USERS`, before the logarithm.
    This is 0 if there are no users, and below 0 if the split fits. If every user is assigned with
    the chance ``planned``, the evidence is a martingale, because each of its parts is one. So its
    limit is valid at any time (Ville 1939).
    """
    parts = [log_evidence_of_prior(baseline, candidate, planned, users) for users in PRIOR_USERS]
    return float(np.logaddexp.reduce(parts)) - math.log(len(parts))


def log_evidence_of_prior(
    baseline: int, candidate: int, planned: float, concentration: float
) -> float:
    """The natural logarithm of the likelihood ratio of a mixture of splits and the plan.

    The mixture is a Beta distribution with mean pi = ``planned``. For a and b users, with c =
    ``concentration``::

        ln B(c pi + a, c (1 - pi) + b) - ln B(c pi, c (1 - pi)) - a ln pi - b ln(1 - pi)

    This is that of Lindon and Malek (arXiv 2011.03567). The rounding error is below 1e-6 for 10^9
    users.
    """
    prior_baseline = concentration * planned
    prior_candidate = concentration * (1 - planned)
    log_mixture = _log_beta(prior_baseline + baseline, prior_candidate + candidate)
    log_mixture -= _log_beta(prior_baseline, prior_candidate)
    return log_mixture - baseline * math.log(planned) - candidate * math.log1p(-planned)


def _log_beta(first: float, second: float) -> float:
    return math.lgamma(first) + math.lgamma(second) - math.lgamma(first + second)
