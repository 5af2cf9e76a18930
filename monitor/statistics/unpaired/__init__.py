"""Compares two arms that serve different users, as in an A/B test. Pure.

Each user has a current list and a pre-test list. The score of a user is the similarity of
these two lists. All values are undefined (NaN) if an arm has too few users. The functions:

- `split.log_evidence(baseline, candidate, planned) -> float`: do the numbers of users fit the
  planned split? The split is off if the result is at least `split.SPLIT_OFF`.
- `gaps.mean_gap(baseline, candidate) -> Gap`: the self gap, from the `Summary` of each arm.
- `gaps.share_gap(baseline, candidate) -> Gap`: the far gap and all list gaps for people, from the
  `AffectedUsers` of each arm. `far_lists.far_floor(disjoint, identical)` is the score below which
  a list is far.
- `gaps.angle_gap(baseline, candidate) -> Gap`: the same gaps as angles, for learned limits.
- `outcomes.relative_difference(baseline, candidate, width) -> Difference`: how much an outcome such
  as clicks differs, from the `OutcomeMoments` of each arm. `outcomes.half_width(users, days)` is
  the width.
- `between.count_lists(codes, items) -> ListCounts`: counts items by place.
  `between.between_excess(baseline, candidate, p) -> BetweenExcess`: how much less alike two users
  of different arms are than two users of one arm.
- `exposure.find_moved_items(baseline, candidate) -> tuple[ItemExposure, ...]`: the items whose
  exposure differs most, from two `ListCounts`.
- `arms_differed.compare_before(codes, is_candidate, hashes) -> float | None`: did the arms
  differ before the test began?
- `rollout.pair_scores(baseline, candidate, rng) -> Floats`: differences of scores for the gate.

A healthy training changes the self gap and the far gap too. So a gap must never be compared with 0
and its error. Compare it with the gaps of earlier runs: `monitor.statistics.reference`.
"""
