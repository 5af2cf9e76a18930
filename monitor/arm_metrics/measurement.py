"""Arm-wide metrics of both arms over all segments of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from monitor.arm_metrics.measures import ArmLists, ArmMetric, LastLists, Listing
from monitor.kernels.exposure import churn, compact_codes
from monitor.kernels.whole_lists import first_differs, is_top_reversed, is_unchanged, number_repeated
from monitor.model import CHURN, Arm, ArmScore, Lack, PairBatch
from monitor.model.arrays import Codes, Floats, Rows


def measure_arms(
    batch: PairBatch,
    segments: Mapping[str, Rows],
    metrics: Sequence[ArmMetric],
    *,
    catalogue_size: int | None = None,
    last: Mapping[Arm, LastLists] | None = None,
) -> tuple[ArmScore, ...]:
    """Each metric of each arm over each segment, in the order segment, metric, arm.

    ``segments`` hold rows of the batch. ``catalogue_size`` counts the items that could be listed; without it, and where more
    are listed than that, it is the number of items that either arm lists to anybody. ``last`` holds the arms' last runs.

    Where a value is undefined (nobody in the segment) or cannot be known (no weights, no scores, no last run), it is None and
    ``n`` is 0. Cost: a pass over the places of each segment for all that counts items, and one each for popularity and score
    shift, which sorts; memory for a copy of them.
    """
    # What the catalogue costs is paid once, before the segments.
    whole = _arm_lists(batch, catalogue_size, last or {})
    scores: list[ArmScore] = []
    for segment, rows in segments.items():
        listings = {arm: Listing(lists, rows) for arm, lists in whole.items()}
        scores += (_score(segment, arm, metric, listings[arm]) for metric in metrics for arm in metric.arms)
    return tuple(scores)


def _score(segment: str, arm: Arm, metric: ArmMetric, listing: Listing) -> ArmScore:
    value = metric.measure(listing) if listing.n else None
    return ArmScore(segment=segment, arm=arm, metric=metric.name, value=value, n=0 if value is None else metric.count(listing))


def _arm_lists(batch: PairBatch, catalogue_size: int | None, last: Mapping[Arm, LastLists]) -> dict[Arm, ArmLists]:
    baseline, candidate, items = compact_codes(batch.baseline, batch.candidate)
    scores, weights = batch.scores, batch.weights
    between = {
        Lack.REVERSED: is_top_reversed(baseline, candidate),
        Lack.FIRST_DIFFERS: first_differs(baseline, candidate),
        **({"baseline_scores": scores.baseline, "candidate_scores": scores.candidate} if scores else {}),
    }
    return {
        arm: ArmLists(
            codes=codes,
            items=len(items),
            # A catalogue smaller than what is listed would give coverage above 1.
            catalogue=max(catalogue_size or 0, len(items)),
            repeated=number_repeated(codes),
            known={
                **(between if arm is Arm.CANDIDATE else {}),
                **({"weights": weights.of(arm)} if weights else {}),
                **_against_last(own, lengths, last.get(arm)),
            },
            is_new=~np.isin(items, last[arm].exposed) if arm in last else None,
        )
        for arm, codes, own, lengths in (
            (Arm.BASELINE, baseline, batch.baseline, batch.baseline_lengths),
            (Arm.CANDIDATE, candidate, batch.candidate, batch.candidate_lengths),
        )
    }


def _against_last(codes: Codes, lengths: Codes, last: LastLists | None) -> dict[str, Floats]:
    if last is None:
        return {}
    lists = codes, lengths, last.codes, last.lengths
    return {CHURN: churn(*lists), Lack.UNCHANGED: is_unchanged(*lists)}
