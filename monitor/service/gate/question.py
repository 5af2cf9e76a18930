"""The question that a gate answers, the stored runs that it judges, and their drawn users."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum

import numpy as np
import pandas as pd

from monitor.measures.metrics import Metric, Need, parse
from monitor.measures.sampling import draw_users, select_kept
from monitor.model.arrays import Floats, Rows
from monitor.model.errors import ConfigError, InputError
from monitor.model.gate import LeftOut
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL, Arm, CoverageRow, Panel, UserTable
from monitor.model.rules import Comparison, Keep
from monitor.model.runs import Run, RunStatus
from monitor.model.statistics import PRE_TEST_SERIES, DerivedMetric, NoiseFloor, parse_derived
from monitor.service.runner import pick_comparison
from monitor.statistics.sequential.gate import Scale, require_level
from monitor.statistics.unpaired.rollout import pair_scores
from monitor.storage.run_history import SqlHistory

EACH = "each"
"""Instead of the name of a segment. It means every segment except ``all``."""
UsersAt = Callable[[datetime], UserTable]
"""Returns all users at a slot, with their segments."""
_LOOKED_THROUGH = 100_000


class Yardstick(StrEnum):
    """The zero of the excess: the noise floor, the score of identical lists, or a given score.

    If each user is served by one arm only, it is the distance that the baseline's users moved from
    their own pre-test lists.
    """

    NOISE_FLOOR = "noise_floor"
    IDENTICAL = "identical"
    REFERENCE = "reference"
    BEFORE = "before"


@immutable
class Excess:
    """How the excess of each user is computed, in units of the metric.

    A positive excess means that the candidate is farther from the baseline than it should be.
    """

    yardstick: Yardstick
    series: str  # the name under which the scores are stored
    scale: Scale  # the range of the excess
    # The score that means no excess. None with a noise floor, because then the stored scores are
    # the excess already.
    reference: float | None = None
    sign: float

    def of(self, scores: Floats) -> Floats:
        """Return the excess of users from their stored scores. NaN stays NaN."""
        if self.reference is None:
            return scores
        return self.sign * (self.reference - scores)

    def __str__(self) -> str:
        if self.yardstick is Yardstick.BEFORE:
            return (
                f"{self.series}: how much farther the candidate's users moved from their own "
                "pre-test lists than the baseline's users, over random pairs of one user of each arm"
            )
        if self.yardstick is Yardstick.NOISE_FLOOR:
            return (
                f"{self.series}: the candidate's distance from the baseline, minus the distance "
                "between two lists of the baseline"
            )
        reference = "the given reference"
        if self.yardstick is Yardstick.IDENTICAL:
            reference = "identical lists"
        return (
            f"{self.series}: how far the score is from {self.reference:g}, the score of "
            f"{reference}. The noise of the baseline is NOT subtracted"
        )


def over_own_lists(metric: Metric, k: int, yardstick: Yardstick) -> Excess:
    """Return the excess over the noise floor or, of random pairs of users, over pre-test lists.

    If scores of the metric are from 0 to 1, the excess is from -1 to 1. `pair_scores` makes the
    random pairs of one user of each arm.
    """
    low, high = _bounds(metric, k)
    is_before = yardstick is Yardstick.BEFORE
    derived = DerivedMetric.SELF_GAP if is_before else DerivedMetric.OVER_FLOOR
    return Excess(
        yardstick=yardstick,
        series=derived.of(str(metric)),
        scale=Scale(low - high, high - low),
        sign=1.0 if metric.higher_is_more_alike else -1.0,
    )


def from_value(metric: Metric, k: int, reference: float | None) -> Excess:
    """Return the excess as a distance from a score. The default is the score of identical lists.

    Raises InputError if there is no such score.
    """
    low, high = _bounds(metric, k)
    if reference is not None and math.isnan(reference):
        raise InputError(
            f"reference nan is not a score of {metric}: choose one from {low:g} to {high:g}"
        )
    zero = metric.identical if reference is None else reference
    if zero is None or math.isnan(zero):
        raise InputError(
            f"{metric} has no fixed value on identical lists: give the score without excess with "
            "--reference VALUE"
        )
    if not low <= zero <= high:
        raise InputError(
            f"reference {zero:g} is not a score of {metric}: choose one from {low:g} to {high:g}"
        )
    sign = 1.0 if metric.higher_is_more_alike else -1.0
    lowest, highest = sorted((sign * (zero - low), sign * (zero - high)))
    return Excess(
        yardstick=Yardstick.IDENTICAL if reference is None else Yardstick.REFERENCE,
        series=str(metric),
        scale=Scale(lowest, highest),
        reference=zero,
        sign=sign,
    )


def _bounds(metric: Metric, k: int) -> tuple[float, float]:
    """Return the lowest and the highest score. Raises InputError if one of them is not finite."""
    low, high = metric.bounds(k)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(
            f"{metric} has no finite range, but the gate needs one: choose a normalized metric"
        )
    return low, high


@immutable
class Question:
    """The question of a gate: is the mean excess of a metric below ``margin``?

    ``margin`` is in units of the metric. `make_question` makes and checks questions.
    """

    comparison: Comparison
    metric: Metric
    margin: float
    alpha: float
    segments: tuple[str, ...] = (ALL,)
    since: datetime | None = None
    reference: float | None = None

    @property
    def is_unpaired(self) -> bool:
        """Whether each user is served by one arm only."""
        return self.comparison.measuring.unpaired is not None

    @property
    def is_census(self) -> bool:
        """Whether every run asks the same users: all users, or a fixed sample."""
        sample = self.comparison.measuring.sample
        return sample is None or not sample.rotating

    @property
    def fixed_users(self) -> int | None:
        """The size of the fixed sample. None if each run asks all users or draws new ones."""
        sample = self.comparison.measuring.sample
        return sample.fixed if sample is not None and self.is_census else None

    @property
    def needs_panel(self) -> bool:
        """Whether judging needs the segments of each run.

        They are needed if the question names segments, or if the sample has a minimum for each
        segment.
        """
        sample = self.comparison.measuring.sample
        return self.segments != (ALL,) or (sample is not None and sample.minimum is not None)

    @property
    def has_floor(self) -> bool:
        """Whether the gate judges the excess over the noise floor.

        Metrics of relevance have no noise floor.
        """
        is_wanted = self.comparison.measuring.noise_floor is not None and self.reference is None
        return is_wanted and self.metric.need is not Need.RELEVANCE

    @property
    def excess(self) -> Excess:
        """The excess over the noise floor, or the distance from a score.

        The noise floor is used if there is one and if no reference is given.
        """
        k = self.comparison.measuring.k
        if self.is_unpaired or self.has_floor:
            yardstick = Yardstick.BEFORE if self.is_unpaired else Yardstick.NOISE_FLOOR
            return over_own_lists(self.metric, k, yardstick)
        return from_value(self.metric, k, self.reference)


def make_question(  # noqa: PLR0913 - the options of the command
    comparisons: Mapping[str, Comparison],
    name: str,
    *,
    margin: float,
    alpha: float,
    metric: str | None = None,
    segments: tuple[str, ...] = (),
    since: datetime | None = None,
    reference: float | None = None,
) -> Question:
    """Make a question. The default metric is the comparison's first one.

    Raises ConfigError or InputError if the gate cannot answer the question.
    """
    comparison = pick_comparison(comparisons, name)
    is_unpaired = comparison.measuring.unpaired is not None
    if is_unpaired and reference is not None:
        raise InputError(
            f"each user of {comparison.name} is served by one arm only, so the gate judges the "
            "self gap: leave out --reference"
        )
    if comparison.measuring.keep_scores is not Keep.ALL:
        raise ConfigError(
            f"{comparison.name} does not store the scores of all users, but the gate needs them: "
            "set keep_scores: all"
        )
    sample = comparison.measuring.sample
    if sample is not None and sample.stops_early:
        raise ConfigError(
            f"{comparison.name} selects users by earlier scores, not at random: remove "
            "stop_when: decided"
        )
    require_level(alpha)
    question = Question(
        comparison=comparison,
        metric=_choose_metric(comparison, metric),
        margin=margin,
        alpha=alpha,
        segments=tuple(dict.fromkeys(segments)) or (ALL,),
        since=since,
        reference=reference,
    )
    question.excess.scale.margin(margin)  # raises for a margin that the metric cannot have
    is_temporal = comparison.measuring.noise_floor is NoiseFloor.TEMPORAL
    if is_temporal and question.has_floor and not question.is_census:
        raise ConfigError(
            "noise_floor: {temporal: true} needs earlier lists of the same users, but rotating "
            "users have none: use {serve: true} or {retrain: SOURCE}, or give the score without "
            "excess with --reference VALUE"
        )
    return question


def _choose_metric(comparison: Comparison, name: str | None) -> Metric:
    """Return the metric with this name, or the first one. Raises InputError if it is not measured."""
    metrics = comparison.measuring.metrics
    if name is None:
        return parse(metrics[0])
    derived, base = parse_derived(name.strip())
    if derived is not None:
        raise InputError(
            f"{name} is a derived series: give the metric {base} instead. If there is a "
            "noise floor, the gate judges the excess over it"
        )
    metric = parse(name)
    if str(metric) not in metrics:
        raise InputError(
            f"{comparison.name} does not measure {metric}: choose one of {', '.join(metrics)}"
        )
    return metric


@immutable
class RunSelection:
    """The runs to judge, oldest first, and how many other runs are left out for which reason.

    ``failure`` says why the newest run that is not ok failed or compared too few users.
    """

    runs: tuple[Run, ...]
    left_out: Mapping[LeftOut, int]
    failure: str | None


def select_runs(history: SqlHistory, question: Question) -> RunSelection:
    """Select the ok runs of this configuration. If users are drawn, omit runs that asked all."""
    stored = history.runs(
        comparison=question.comparison.name, limit=_LOOKED_THROUGH, since=question.since
    )
    judged = []
    failure = None
    left_out: Counter[LeftOut] = Counter()
    for run in reversed(stored):
        if run.status is RunStatus.RUNNING:
            continue
        if run.status is not RunStatus.OK and run.reason:
            failure = run.reason
        reason = _why_left_out(run, question)
        if reason is None:
            judged.append(run)
        else:
            left_out[reason] += 1
    return RunSelection(runs=tuple(judged), left_out=left_out, failure=failure)


def _why_left_out(run: Run, question: Question) -> LeftOut | None:
    """Return why the run cannot be judged, or None if it can."""
    if run.config_hash != question.comparison.config_hash:
        return LeftOut.OTHER_CONFIGURATION
    if run.status is not RunStatus.OK:
        return LeftOut(run.status.value)
    sample = question.comparison.measuring.sample
    if sample is None or question.is_census:
        return None
    if (run.asked or 0) < sample.fixed + sample.rotating:
        return LeftOut.ASKED_EVERYBODY
    return None


@immutable
class DrawnSegment:
    """The drawn users of one segment in one run.

    ``unit`` is the excess of each user with a score, scaled to [0, 1]. ``missing`` is the number of
    users without a score.
    """

    unit: Floats
    missing: int


@immutable
class DrawnRun:
    """A run, with its drawn users by segment."""

    run: Run
    segments: Mapping[str, DrawnSegment]


def read_run(
    run: Run, history: SqlHistory, question: Question, users_at: UsersAt | None
) -> DrawnRun | None:
    """Read the scores of the rotating users, or return None if the metric was not measured.

    A user with an undefined score is treated as a user without a score.

    Raises InputError for a score out of range, or if the segments of the run are no longer
    available.
    """
    if question.is_unpaired:
        return _read_arms(run, history, question, users_at)
    excess = question.excess
    scores = history.run_scores(run.id, [excess.series])
    if not scores.by_metric:
        return None
    everyone = np.arange(len(scores.users), dtype=np.intp)
    # For each segment, the rows of its users with stored scores, and the number of asked users.
    rows_of = {ALL: everyone}
    asked = {ALL: run.asked or 0}
    finished = history.finished_run(run.id) if question.needs_panel else None
    if users_at is not None and finished is not None and finished.coverage is not None:
        panel = _read_panel(run, history, question, scores.users, users_at)
        for row in finished.coverage.rows:
            rows_of[row.segment] = _rows_of_segment(panel, row.segment, scores.users)
            asked[row.segment] = row.asked
    is_judged = np.ones(len(everyone), dtype=bool)
    if not question.is_census:
        # Only rotating users are judged. Users that were added to reach a segment's minimum are the
        # same in each run, so they are treated as fixed users. They are not in the segment `all`.
        is_fixed = select_kept(scores.users, Keep.PANEL, question.comparison)
        is_judged = ~is_fixed & np.isin(everyone, rows_of[ALL])
    excesses = excess.of(scores.by_metric[excess.series])
    segments = {}
    for name, rows in rows_of.items():
        # For a user without a score it is unknown whether the user is fixed or rotating. All of
        # them are counted as rotating users, so that the bounds are never too narrow.
        unscored = asked[name] - len(rows)
        judged = excesses[rows][is_judged[rows]]
        segments[name] = _drawn_segment(judged, unscored, excess.scale)
    return DrawnRun(run=run, segments=segments)


def _read_arms(
    run: Run, history: SqlHistory, question: Question, users_at: UsersAt | None
) -> DrawnRun | None:
    """Read the scores of both arms' users, and pair the users at random.

    Users without a pre-test list are no pairs, because nothing can be said about them. If a larger
    share of the candidate's users than of the baseline's users has no current list, the pairs that
    this costs count as missing.
    """
    excess = question.excess
    names = [series.of(str(question.metric)) for series in PRE_TEST_SERIES.values()]
    scores = history.run_scores(run.id, names)
    if len(scores.by_metric) < len(names):
        return None
    baseline, candidate = (scores.by_metric[name] for name in names)
    finished = history.finished_run(run.id)
    coverage: Mapping[str, CoverageRow] = {}
    if finished is not None and finished.coverage is not None:
        coverage = {row.segment: row for row in finished.coverage.rows}
    members: dict[str, Rows] = {ALL: np.arange(len(scores.users), dtype=np.intp)}
    if users_at is not None and question.needs_panel:
        panel = _read_panel(run, history, question, scores.users, users_at)
        for segment in coverage:
            members[segment] = _rows_of_segment(panel, segment, scores.users)
    segments = {}
    for segment, rows in members.items():
        # The seed gives the same run the same pairs.
        rng = np.random.default_rng(int(run.slot.timestamp()))
        pairs = excess.sign * pair_scores(baseline[rows], candidate[rows], rng)
        lost = _lost_share(coverage[segment]) if segment in coverage else 0.0
        # If the share ``lost`` of all pairs is missing, the stored pairs are the rest.
        missing = round(lost / (1.0 - lost) * len(pairs)) if lost < 1.0 else 0
        segments[segment] = DrawnSegment(unit=excess.scale.to_unit(pairs), missing=missing)
    return DrawnRun(run=run, segments=segments)


def _lost_share(row: CoverageRow) -> float:
    """Return the share of the candidate's users without a current list, minus the baseline's share.

    Returns 0 if the baseline's share is larger.
    """
    shares = {}
    for arm in Arm:
        shares[arm] = row.count_lost(arm) / max(1, row.asked_of(arm))
    return max(0.0, shares[Arm.CANDIDATE] - shares[Arm.BASELINE])


def _drawn_segment(excesses: Floats, unscored: int, scale: Scale) -> DrawnSegment:
    """Return a segment with these excesses of its users. ``unscored`` more users have no excess."""
    has_score = ~np.isnan(excesses)
    missing = max(unscored + int((~has_score).sum()), 0)
    return DrawnSegment(unit=scale.to_unit(excesses[has_score]), missing=missing)


def _read_panel(
    run: Run, history: SqlHistory, question: Question, scored: "pd.Index[str]", users_at: UsersAt
) -> Panel:
    """Return the panel that the run drew, from its stored lists or drawn again.

    ``scored`` are the users with stored scores. Raises InputError if the panel would differ.
    """
    stored = history.kept_lists(run.id)
    if stored is not None and scored.isin(stored.panel.users).all():
        return stored.panel
    # If the source has not changed, this draws the same users again.
    panel = draw_users(users_at(run.slot), question.comparison, run.slot)
    has_changed = not scored.isin(panel.users).all()
    # In an unpaired comparison, users that switched arms are users of the source, but not asked.
    if not question.is_unpaired and len(panel.segments[ALL]) != run.asked:
        has_changed = True
    if has_changed:
        raise InputError(
            f"the segments of the run of {format_instant(run.slot)} are lost, because the "
            "source's users have changed. Set keep_lists: all to store the newest run's segments, "
            "or judge newer runs with --since"
        )
    return panel


def _rows_of_segment(panel: Panel, segment: str, scored: "pd.Index[str]") -> Rows:
    """Return the rows of the segment's users among ``scored``, in ascending order."""
    if segment not in panel.segments:  # the segment had too few users, so it is not in the panel
        return np.empty(0, dtype=np.intp)
    rows = scored.get_indexer(panel.users[panel.segments[segment]])
    return np.sort(rows[rows >= 0])
