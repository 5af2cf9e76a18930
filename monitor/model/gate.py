"""Verdicts of the gate, and why the gate leaves runs out. `monitor.texts.gate` writes the texts."""

from enum import StrEnum

from monitor.model.immutable import immutable


class GateVerdict(StrEnum):
    """Whether the mean is below the margin (``safe``) or above it (``breach``)."""

    SAFE = "safe"
    BREACH = "breach"
    INCONCLUSIVE = "inconclusive"


class GateReason(StrEnum):
    """The reason of a verdict."""

    DECIDED = "decided"
    NO_DATA = "no_data"  # no user has a score, or missing scores could change the verdict
    TOO_FEW = "too_few"  # there are not enough users yet


@immutable
class GateResult:
    """The mean of one segment, compared with a margin. Figures have the unit of the score."""

    segment: str
    users: int
    missing: int
    # The mean if every missing score is at the low end of the scale; None without users
    mean_best: float | None
    mean_worst: float | None  # the mean if every missing score is at the high end
    low: float  # lower bound of the mean if missing scores are at the low end
    high: float  # upper bound of the mean if missing scores are at the high end
    # Log10 of the e-value if missing scores are at the high end. It is lower if there are several
    # decisions, because they share alpha. An alpha of 0.01 needs 2.
    evidence_safe: float
    evidence_breach: float  # the same for a breach, if missing scores are at the low end
    verdict: GateVerdict
    reason: GateReason


class LeftOut(StrEnum):
    """Why a finished run is not judged."""

    OTHER_CONFIGURATION = "other_configuration"
    INSUFFICIENT = "insufficient"
    FAILED = "failed"
    ABANDONED = "abandoned"
    ASKED_EVERYBODY = "asked_everybody"
    NO_SCORES = "no_scores"
    NOT_THE_NEWEST = "not_the_newest"
