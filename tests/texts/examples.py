"""An example of each text that is made from values. ``make generated`` writes golden.txt."""

import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import yaml

import messages
import published
from factories import (
    DAY,
    SLOT,
    coverage_row,
    coverage_rule,
    expectation,
    lost_lists,
    rule,
    state,
    summary,
)
from messages import explanation, exposed
from monitor.model.alerts import Removed, RootCause, Standstill
from monitor.model.explanation import DropPart, FaultKind, MeanDrop, PartMeans, SegmentFall
from monitor.model.gate import GateReason, GateResult, GateVerdict, LeftOut
from monitor.model.instants import format_instant
from monitor.model.interpretation import (
    Concentration,
    Interpretation,
    Likeness,
    Spread,
    TrainingDistance,
)
from monitor.model.model_versions import ArmModel
from monitor.model.notifications import Silence
from monitor.model.pages import ReceiverHealth, SeriesPoint
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.rules import (
    UNPAIRED_CONDITIONS,
    Condition,
    CoverageRule,
    Direction,
    FixedLimit,
    LearnedLimit,
    Learning,
    Severity,
    SimilarityRule,
)
from monitor.model.run_reasons import (
    FloorDoubt,
    IdKind,
    IdMismatch,
    LossCause,
    MismatchKind,
    RunReason,
    RunReasonKind,
    UnmatchedName,
)
from monitor.model.runs import RunStatus
from monitor.model.statistics import OUTCOME_SERIES, ListTrait
from monitor.model.tls_faults import TlsClient, TlsFault
from monitor.model.unpaired import ArmCounts, BetweenExcess, OutcomeGap, UnpairedResults
from monitor.model.urgency import Impact
from monitor.service.analysis.interpretation import interpret_summary, measure_concentration
from monitor.texts import deliveries, first_steps, planning, unpaired
from monitor.texts.actions import (
    write_condition_step,
    write_contacts,
    write_firing,
    write_first_step,
    write_frozen_since,
    write_gap_step,
    write_over,
    write_stale_since,
    write_urgency,
)
from monitor.texts.conditions import (
    write_churn,
    write_clear,
    write_health,
    write_ignored,
    write_other_value,
    write_standstill,
    write_too_few,
    write_unlearned,
)
from monitor.texts.deliveries import (
    write_maintenance,
    write_more_severe,
    write_receivers,
    write_silenced,
)
from monitor.texts.explanations import (
    write_alert_text,
    write_also,
    write_cause,
    write_distance,
    write_drop,
    write_fall,
    write_falls,
    write_finding,
    write_finding_alone,
    write_no_cause,
    write_recalled,
    write_unchanged,
)
from monitor.texts.gate import write_census, write_left_out, write_no_runs, write_verdict
from monitor.texts.id_mismatches import (
    Surface,
    write_examples,
    write_matching,
    write_mismatch,
    write_setting,
    write_user_spelling,
)
from monitor.texts.interpretation import (
    write_arm_metric,
    write_first_differs,
    write_interpretation,
    write_longer,
    write_other_metrics,
    write_segments,
    write_shared,
)
from monitor.texts.model_versions import write_changes, write_model_changes, write_models
from monitor.texts.root_causes import (
    write_beginning,
    write_known_cause,
    write_missed,
    write_removed,
    write_stale,
)
from monitor.texts.run_notes import write_run_notes
from monitor.texts.run_reasons import (
    write_causes,
    write_failure,
    write_failures,
    write_headline,
    write_lost_share,
    write_off_split,
    write_run_reason,
    write_run_reasons,
)
from monitor.texts.slots import write_already_run, write_run_again
from monitor.texts.tls_faults import write_tls_fault, write_unreadable_tls_file
from monitor.texts.unmatched_names import write_absent_segment, write_unmatched
from monitor.texts.unpaired import (
    write_arms,
    write_faulty_lists,
    write_outcomes,
    write_split,
    write_unpaired,
    write_unusable,
    write_warning,
)
from monitor.texts.verdicts import (
    name_series,
    write_breach,
    write_normal,
    write_threshold,
    write_value,
)
from monitor.texts.wording import write_cell, write_extra, write_number, write_percent
from tables import cells

TITLE = """THE TEXTS THAT RANKWATCH MAKES FROM VALUES

`make generated` makes this file from examples.py. A test compares it with the code.
Each example has the function, its values, and the text.
"""

_WRAP = textwrap.TextWrapper(width=100, break_long_words=False, break_on_hyphens=False)

DOWN = lost_lists("recs:80 answered 503 Service Unavailable", 34, 690)
TWO_CAUSES = (
    LossCause(reason=CoverageReason.TIMEOUT, users=30, text="recs:80 did not answer in time"),
    LossCause(reason=CoverageReason.MISSING, users=4),
)
LATE = RunReason(
    kind=RunReasonKind.LOST_LISTS, arm=Arm.BASELINE, users=34, asked=50, causes=TWO_CAUSES
)
BOTH = (
    RunReason(kind=RunReasonKind.BOTH_FAILED),
    lost_lists("has no file lists.parquet", 50, 50),
    LATE,
)
SIMILAR = Interpretation(
    likeness=Likeness.SIMILAR,
    metric="rbo(p=0.9)",
    users=700,
    mean=0.62,
    standard_error=0.01,
    by_chance=0.04,
    identical=1.0,
    trainings=None,
)
TRAININGS = TrainingDistance(mean=0.81, standard_error=0.01, ratio=2.0, is_exceeded=True)
SPREAD = Spread(concentration=Concentration.FEW_USERS, half_share=0.08, is_excess=True)
INTERPRETATIONS = (
    *(replace(SIMILAR, likeness=each) for each in Likeness),
    replace(SIMILAR, trainings=TRAININGS),
    replace(SIMILAR, trainings=replace(TRAININGS, ratio=None)),
    replace(SIMILAR, trainings=replace(TRAININGS, is_exceeded=False)),
    replace(SIMILAR, trainings=TRAININGS, spread=SPREAD),
    replace(SIMILAR, spread=replace(SPREAD, is_excess=False)),
    replace(SIMILAR, spread=replace(SPREAD, concentration=Concentration.MANY_USERS)),
)
SECOND_TRAINING = summary(mean=0.9, standard_error=0.01)
MEANS = (
    (1.0, 0.0),
    (0.95, 0.01),
    (0.7, 0.01),
    (0.3, 0.01),
    (0.22, 0.01),
    (0.1, 0.01),
    (0.6, 0.3),
    (0.6, None),
)
READ = [
    interpret_summary(
        summary(mean=mean, standard_error=error), by_chance=0.2, identical=1.0, trainings=trainings
    )
    for trainings in (None, SECOND_TRAINING)
    for mean, error in MEANS
]


def spread(changed, usual=None):
    """How the difference is spread, if so many of 100 users changed, and so many usually change."""
    distances = (np.arange(100) < changed).astype(float)
    of_trainings = None if usual is None else (np.arange(100) < usual).astype(float)
    return replace(SIMILAR, spread=measure_concentration(distances, of_trainings))


SPREADS = [spread(20), spread(100), spread(100, 90), spread(100, 0), spread(0), spread(90, 90)]
SHARED = (
    published.arm_score(
        segment="country=UK", arm=Arm.CANDIDATE, metric=ListTrait.SHARED, value=0.9, n=50
    ),
)
SILENCE = Silence(
    id=7,
    matchers=("alert=SharedList",),
    author="kim",
    comment="known",
    created_at=SLOT,
    starts_at=SLOT,
    ends_at=SLOT + DAY,
)
MISMATCH = IdMismatch(
    kind=MismatchKind.TYPE,
    ids=IdKind.ITEM,
    common=0,
    compared=700,
    would_match=690,
    tried=700,
    forms=("int",),
    examples=("42", "42.0"),
)
PADDING = IdMismatch(
    kind=MismatchKind.PADDING,
    ids=IdKind.ITEM,
    common=80,
    compared=90,
    examples=("0", "0"),
    arm=Arm.CANDIDATE,
)
MEAN = rule(metric="rbo(p=0.9)")
FIXED = FixedLimit(direction=Direction.BELOW, value=0.6, resolve_at=0.65)
EXPECTED = expectation(expected=0.53, limit=0.41, evidence=900.0, evidence_limit=360.0)
FROZEN = Standstill(alert="CandidateFrozen", arm=Arm.CANDIDATE, changes=1)
MODELS = {Arm.CANDIDATE: ArmModel(now="v12", before="v11", since=SLOT)}
MIXED = ArmModel(now="v7", users={"v7": 600, "v6": 100})
RUN = published.run(
    asked=700,
    paired=690,
    models=MODELS | {Arm.BASELINE: MIXED},
    labels_until=SLOT + DAY,
    catalogue_size=None,
)
POINT = SeriesPoint(
    run_id=7,
    slot=SLOT - DAY,
    status=RunStatus.OK,
    mean=0.5,
    standard_error=0.01,
    n=690,
    config_hash="hash",
    k=10,
)
TOO_FEW = GateReason.TOO_FEW
FEW = Impact(users=9, compared=200)
SEGMENT = GateResult(
    segment="country=DE",
    users=300,
    missing=0,
    mean_best=0.08,
    mean_worst=0.12,
    low=0.061,
    high=0.14,
    evidence_safe=-9.0,
    evidence_breach=2.5,
    verdict=GateVerdict.BREACH,
    reason=GateReason.DECIDED,
)
UNMATCHED = UnmatchedName(owner="rule Low", name="country=no", nearest="country=NO")


def each(write, values, *rest):
    """An example of each of these values."""
    return [partial(write, value, *rest) for value in values]


def plain(module, table):
    """Examples of functions of this module whose values are numbers and texts, as in YAML."""
    return [
        partial(getattr(module, name), *yaml.safe_load(f"[{values}]"))
        for name, values in cells(table)
    ]


def reasons(*kinds, **values):
    """The reasons of a run; those that are given by kind have the values."""
    given = [
        each if isinstance(each, RunReason) else RunReason(kind=each, **values) for each in kinds
    ]
    return partial(write_run_reasons, tuple(given))


def floor(doubt, **values):
    return reasons(RunReasonKind.UNTRUSTED_FLOOR, doubt=doubt, asked=500, **values)


def normal(watched, value, *, learning=Learning.DROP, is_breach=False, is_judgeable=True):
    limit = LearnedLimit(learning=learning, direction=Direction.BELOW, value=0.0)
    flags = {"is_breach": is_breach, "is_judgeable": is_judgeable}
    return partial(write_normal, watched, limit, value, EXPECTED, **flags)


def undecided(*, is_census=False, **values):
    result = replace(SEGMENT, verdict=GateVerdict.INCONCLUSIVE, **{"reason": TOO_FEW, **values})
    return partial(write_verdict, result.verdict, (result,), 0.1, is_census=is_census)


RECORDS = {
    "hook": ReceiverHealth(last_success_at=SLOT),
    "mail": ReceiverHealth(last_success_at=SLOT, last_error_at=SLOT + DAY, reason="refused"),
    "pager": ReceiverHealth(),
}
EXCESS = BetweenExcess(segment="all", baseline=0.5, candidate=0.25, across=0.125)
GAPS_OF_OUTCOMES = tuple(
    OutcomeGap(
        column="clicks",
        means=dict.fromkeys(Arm, 3.5),
        users=700,
        difference=None if low is None else -0.01,
        low=low,
        high=high,
    )
    for low, high in ((-0.03, 0.01), (-0.03, -0.005), (0.005, 0.03), (None, None))
)
UNPAIRED = UnpairedResults(
    baseline_share=0.5,
    users={
        Arm.BASELINE: ArmCounts(assigned=1000, served=900, compared=800),
        Arm.CANDIDATE: ArmCounts(assigned=990, served=880, compared=790),
    },
    switched=7,
    log_e=-1.5,
)


def found(kind, **values):
    concerned = {"segment": "country=FR", "segment_share": 0.9, "users": 98, "compared": 700}
    return messages.finding(kind, **concerned | values)


def finding(kind, **values):
    """A finding without earlier lists."""
    what = found(kind, **values)
    if kind is FaultKind.MISSING:
        return partial(write_finding_alone, what)
    return partial(write_finding, what, drop=None)


def parts_of(parts):
    return dict.fromkeys(DropPart, 0.0) | {DropPart(name): amount for name, amount in parts.items()}


def fall(share=0.25, segment="country=DE", **parts):
    return SegmentFall(
        segment=segment, share=share, share_before=share, parts=parts_of(parts), excess=0.1
    )


def mean_drop(main_segment=None, *, noise=0.001, **parts):
    return MeanDrop(
        before=0.5,
        now=0.5 + sum(parts.values()),
        noise=noise,
        parts=parts_of(parts),
        falls=(),
        main_segment=main_segment,
    )


def drop(main_segment=None, **parts):
    return partial(write_drop, mean_drop(main_segment, **parts))


FINDINGS = """
missing       note: "recs:80 answered 503", detail: {before: 0.01}
shared_list   detail: {lists: 1.0, popular: 0.9}
identical     segment: all
alike         -
interleaved   -
alike         segment: all, detail: {is_more_alike: 1.0}
cut_short     segment: all, detail: {now: 5.0, before: 10.0, duplicated: 0.5}
stale         -
stale         detail: {of_before: 1.0}
items_gone    detail: {items: 120.0, exposure: 0.07}
items_risen   detail: {items: 1.0, before: 0.004, now: 1.0}
first_item    detail: {items: 1.0, before: 0.01, now: 0.12}
first_item    detail: {items: 3.0, before: 0.2, now: 0.05}
items_new     detail: {items: 80.0, exposure: 0.09}
cut_short     detail: {now: 1.0, before: 10.0}
items_fallen  detail: {items: 3.0, before: 0.2, now: 0.05}
shifted       detail: {places: 1.0, up: 1.0}
shifted       detail: {places: 2.0, up: 0.0}
mixed_up      -
noise         -
replaced      -
reordered     detail: {top: 1.0}
"""
SHORTER = {"now": 5.0, "before": 10.0}
FALLS = (fall(membership=0.1, order=0.025), fall(0.75, "country=UK", order=0.125))


def alert_text(about="all", **changes):
    """The text of an alert on these users. The explanation has no clear cause unless another is given."""
    unclear = {"sentence": "No clear cause.", "falls": FALLS, "gained": (), "lost": ()}
    explained = explanation(**{**unclear, "now": 0.75, "before": 0.5, **changes})
    return partial(write_alert_text, explained, "extended_tau", about)


EXAMPLES: Any = {
    "Why a run is not ok, or what an ok run lacks": [
        reasons(
            DOWN,
            RunReason(kind=RunReasonKind.OTHER_ANSWERED, arm=Arm.BASELINE, asked=690),
            RunReason(kind=RunReasonKind.EXAMPLES, examples=("u1", "u2")),
        ),
        reasons(
            RunReason(kind=RunReasonKind.TOO_FEW, users=16, asked=50, limit=0.5),
            LATE,
            RunReason(kind=RunReasonKind.LATE, limit=30.0),
            RunReason(kind=RunReasonKind.LAST_OK, slot=SLOT),
        ),
        reasons(*BOTH, RunReasonKind.NOTHING_COMPARED),
        reasons(RunReasonKind.NEW_CONFIGURATION, slot=SLOT),
        reasons(RunReasonKind.SPLIT_OFF, users=4013, asked=7187, limit=0.5, slot=SLOT),
        partial(write_off_split, 4013, 3174, 1 / 3),
        reasons(RunReasonKind.SWITCHED, users=34, asked=1000, limit=0.01),
        reasons(RunReasonKind.SERVED_BY_OTHER, users=34, asked=1000, limit=0.01),
        reasons(RunReasonKind.ROWS_LOST, users=900, asked=1000),
        reasons(RunReasonKind.NOT_SERVED, arm=Arm.CANDIDATE),
        reasons(RunReasonKind.FEW_BEFORE, arm=Arm.BASELINE, users=12, asked=50, limit=0.5),
        reasons(RunReasonKind.ARMS_DIFFERED, limit=0.0003),
        reasons(RunReasonKind.ERROR, text="users.csv: no such file"),
        reasons(RunReasonKind.ID_MISMATCH, mismatch=MISMATCH),
        reasons(RunReasonKind.UNMATCHED_NAME, unmatched=UNMATCHED),
        partial(write_run_reason, DOWN),
        partial(write_causes, TWO_CAUSES),
        floor(FloorDoubt.CACHED, users=500, text="Age: 3"),
        floor(FloorDoubt.SAME_ID, users=480),
        floor(FloorDoubt.EQUAL, limit=12.0),
        partial(
            write_lost_share,
            "the candidate gave no usable answer for 34 of 690 users (4.93 %)",
            Arm.CANDIDATE,
            (34, 690),
            (LATE, DOWN),
        ),
    ],
    "Headlines of failed runs": [
        partial(write_headline, (DOWN,)),
        partial(write_failure, LATE),
        partial(write_failures, BOTH),
        partial(write_headline, (RunReason(kind=RunReasonKind.ERROR, text="no such file"),)),
    ],
    "Verdicts of rules": [
        partial(write_value, MEAN, 0.51234, 690, "all", 0.6),
        *(
            partial(
                write_value, coverage_rule(f"{trait}(candidate)"), 34 / 690, 690, "country=UK", 0.01
            )
            for trait in ListTrait
            if trait is not ListTrait.UNPAIRED
        ),
        partial(write_value, coverage_rule("unpaired"), 1.0, 690, "all", 0.01),
        *(
            partial(write_threshold, MEAN, FIXED, is_breach=breach, is_recovered=recovered)
            for breach, recovered in ((True, False), (False, False), (False, True))
        ),
        partial(
            write_threshold,
            coverage_rule("identical_list(candidate)"),
            replace(FIXED, direction=Direction.ABOVE, value=0.02),
            is_breach=True,
            is_recovered=False,
        ),
        normal(MEAN, 0.4, is_breach=True),
        normal(MEAN, 0.52),
        normal(MEAN, 0.4, is_judgeable=False),
        normal(MEAN, 0.5, learning=Learning.TREND, is_breach=True),
        normal(MEAN, 0.5, learning=Learning.TREND),
        normal(coverage_rule("missing(candidate)"), 0.6, is_breach=True),
        partial(
            write_breach,
            coverage_rule("failed(candidate)"),
            "the candidate gave no usable answer for 34 of 690 users (4.93 %)",
            "more than the 2 % allowed",
            (34, 690),
            (DOWN,),
        ),
    ],
    "Conditions, and arms that do not change": [
        *each(write_clear, Condition),
        partial(write_health, 90, 2, is_well=True),
        partial(write_health, 90, 75, is_well=False),
        partial(write_health, 0, 0, is_well=True),
        partial(write_other_value, state()),
        partial(write_ignored, "the candidate has no file lists.parquet", Condition.ERROR),
        partial(write_standstill, replace(FROZEN, missed=4), 3),
        partial(write_standstill, replace(FROZEN, missed=2), 3),
        partial(write_standstill, FROZEN, 3),
        partial(write_standstill, replace(FROZEN, arm=None), 3),
        partial(write_churn, Arm.CANDIDATE, 0.001, 0.3),
        partial(write_unlearned, FROZEN),
        partial(write_too_few, 12, 30),
    ],
    "Verdicts of the gate": [
        partial(write_verdict, GateVerdict.BREACH, (SEGMENT,), 0.05, is_census=False),
        partial(
            write_verdict,
            GateVerdict.SAFE,
            (replace(SEGMENT, verdict=GateVerdict.SAFE),),
            0.2,
            is_census=False,
        ),
        undecided(),
        undecided(is_census=True),
        undecided(reason=GateReason.NO_DATA, missing=90),
        undecided(reason=GateReason.NO_DATA, missing=300),
        undecided(reason=GateReason.NO_DATA, users=0),
        partial(write_no_runs, "home-feed", None, {}, None),
        partial(write_no_runs, "home-feed", SLOT, dict.fromkeys(LeftOut, 2), "no such file"),
        partial(write_left_out, LeftOut.FAILED, 1),
        partial(write_census, None),
        partial(write_census, 300),
    ],
    "Results of compare": [
        *each(write_interpretation, (*INTERPRETATIONS, *READ, *SPREADS)),
        *(partial(write_segments, {"country=UK": each}, SHARED) for each in INTERPRETATIONS[-6:-3]),
        partial(write_shared, SHARED, "country=UK"),
        partial(write_other_metrics, SIMILAR, [None, *INTERPRETATIONS[:3]]),
        partial(write_first_differs, SHARED[0]),
        partial(write_segments, dict.fromkeys("abcdefg", SIMILAR), ()),
        partial(write_longer, 12, 10),
        partial(write_arm_metric, "first_differs"),
        partial(write_arm_metric, "novelty"),
    ],
    "First configurations": [
        partial(write_matching, IdKind.USER, 1900, 2000, 3),
        partial(write_matching, IdKind.ITEM, 23, 28, 3),
        partial(first_steps.write_first_config, "rankwatch.yaml", "", users=3),
        *(
            partial(first_steps.write_first_config, "a.yaml", " --config a.yaml", missing=files)
            for files in (("baseline.csv",), ("a.csv", "b.csv"))
        ),
        *plain(
            first_steps,
            """
            write_unusable_config  rankwatch.yaml, ""
            write_while_learning   feed, 9% of the users get one list.
            write_same_lists       home-feed, "2024-01-08T06:00:00Z"
            """,
        ),
    ],
    "Slots that have already run": [
        partial(write, "home-feed", attempts, "2024-01-08T06:00:00Z", "home-feed@1")
        for write in (write_already_run, write_run_again)
        for attempts in (1, 3)
    ],
    "Checks, plans, proposed thresholds and backtests": [
        *plain(
            planning,
            """
            write_checked           rankwatch.yaml, 3, 1, [], []
            write_checked           rankwatch.yaml, 1, 0, [home-feed], [home-feed]
            write_checked           rankwatch.yaml, 1, 0, [], [home-feed]
            write_database          "PostgreSQL database rankwatch at db.internal:5432", "0001"
            write_database          SQLite database /var/lib/rankwatch/rankwatch.db, null
            write_first_change      rankwatch.yaml, baseline, 12
            write_too_few_healthy   4, 5
            write_not_stored        p90
            write_uncertain         p05
            write_no_users_suffice  0.02, 1, 0.05, 12, null
            write_no_users_suffice  0.02, 3, 0.05, 12, 2000
            write_no_runs_suffice   12, 0.05
            write_spread            0.52, 0.3, 0.01, 12
            write_spread            null, 0.3, 0.01, 12
            write_chance            0.05, 2000, 3, 0.905
            write_needed            0.05, 0.9, 0.0111111, "1 run of 2,000 users"
            write_size              2000, 1
            write_size              2000, 3
            write_least_drop        2000, 0.05
            write_early_stop        900, 2000
            write_judged_again      home-feed, []
            write_judged_again      home-feed, [[ok, 1200], [failed, 1]]
            write_lacking           SimilarityLow, rbo(p=0.9)@10, p90, 3
            """,
        ),
        partial(planning.write_too_rare, 12, 90 * DAY, 7 * DAY),
        partial(planning.write_false_alerts, 90 * DAY),
        partial(planning.write_arm_sizes, 2001, 3, 0.9, DAY),
    ],
    "Why no run succeeds, and why alerts end": [
        partial(write_stale, SLOT, RootCause(), has_succeeded=False),
        partial(
            write_stale,
            SLOT,
            RootCause(database_away_s=3660.0, run_failure="candidate recs:80 answered 503"),
            has_succeeded=True,
        ),
        partial(write_missed, "no run has succeeded since the run of 2024-01-08 00:00 UTC", 3),
        partial(write_known_cause, SLOT + DAY, "98 of 700 users got no list."),
        partial(write_beginning, "MissingLists", SLOT, "98 of 700 users got no list."),
        *each(write_removed, Removed),
    ],
    "Models and settings that changed": [
        partial(write_model_changes, MODELS, SLOT, SLOT - DAY),
        partial(write_models, MODELS, SLOT + DAY),
        partial(write_changes, POINT, SLOT, "newer hash", 20, MODELS),
        partial(write_run_notes, RUN, SLOT - DAY),
        partial(write_run_notes, replace(RUN, labelled_at=SLOT + DAY), None),
    ],
    "Ids that do not match": [
        *(partial(write_mismatch, MISMATCH, surface) for surface in Surface),
        partial(write_mismatch, PADDING),
        partial(
            write_mismatch,
            IdMismatch(kind=MismatchKind.UNKNOWN, ids=IdKind.USER, common=2, compared=90),
        ),
        partial(write_user_spelling, MISMATCH),
        partial(write_examples, MISMATCH),
        partial(write_setting, MISMATCH),
    ],
    "Names that match nothing": [
        partial(write_unmatched, UNMATCHED),
        partial(write_absent_segment, UNMATCHED),
        partial(
            write_unmatched,
            UnmatchedName(owner="route 2", name="team=x", is_matcher=True, known=tuple("abcdefg")),
        ),
    ],
    "TLS": [
        *each(write_tls_fault, TlsFault, TlsClient.HTTP_SOURCE),
        *(
            partial(write_tls_fault, TlsFault.UNKNOWN_ISSUER, client)
            for client in (*TlsClient,)[1:]
        ),
        *(partial(write_tls_fault, TlsFault.CLIENT_WANTED, client) for client in (*TlsClient,)[1:]),
        partial(write_unreadable_tls_file, "sslrootcert", "/etc/rankwatch/ca.pem"),
    ],
    "The state of an alert, and how urgent it is": [
        partial(write_contacts, {"owner": "ranking", "contact": "#recs-oncall"}),
        partial(write_firing, "", SLOT, is_lasting=False),
        partial(write_over, "country=UK", SLOT, SLOT + DAY),
        partial(write_stale_since, SLOT),
        partial(write_frozen_since, SLOT, 3, is_about_both_arms=False),
        partial(write_frozen_since, SLOT, 3, is_about_both_arms=True),
        *each(write_urgency, Severity),
        *(
            partial(write_urgency, Severity.WARNING, concern)
            for concern in (
                replace(FEW, users=100, arms=(*Arm,)),
                replace(FEW, is_excess=True),
                replace(FEW, arms=(Arm.CANDIDATE,), is_private=True),
            )
        ),
        partial(write_urgency, Severity.WARNING, FEW, is_worse=True),
    ],
    "What to do first about a fault": [
        *each(write_first_step, FaultKind, (Arm.CANDIDATE,)),
        partial(write_first_step, FaultKind.NOISE, (*Arm,)),
        partial(write_first_step, FaultKind.CUT_SHORT, (Arm.CANDIDATE,), has_duplicates=True),
        *each(write_condition_step, sorted(UNPAIRED_CONDITIONS)),
        *each(write_gap_step, Direction),
    ],
    "How to install an extra": [partial(write_extra, "redis")],
    "Shares": [partial(write_percent, share) for share in (0.0001, 0.004, 0.0094, 0.0096, 1.0)],
    "Cells of tables": [
        *(partial(write_cell, value, str) for value in (None, True, SLOT, 1874, 0.1, ("a", "b"))),
        partial(write_number, float("nan")),
    ],
    "Why a message is sent later, never, or again": [
        partial(write_silenced, SILENCE),
        partial(write_maintenance, "nights", SLOT),
        partial(write_more_severe, Severity.WARNING, Severity.CRITICAL),
        *plain(
            deliveries,
            """
            write_inhibited    RunFailing
            write_waiting_end  SimilarityLow
            write_more_users   120.0, 1500.0
            write_joined       [users get no list]
            """,
        ),
        partial(write_receivers, {}),
        partial(write_receivers, RECORDS),
        partial(write_receivers, {"pager": ReceiverHealth()}, has_alerted=False),
    ],
    "What happened to lists": [
        *(
            finding(FaultKind(kind), **yaml.safe_load(f"{{{values.strip('-')}}}"))
            for kind, values in cells(FINDINGS)
        ),
        finding(FaultKind.CUT_SHORT, detail=SHORTER, is_exact=True),
        *(
            partial(
                write_finding, found(FaultKind.CUT_SHORT, detail=SHORTER), mean_drop(order=each)
            )
            for each in (-0.1, 0.0019)
        ),
        finding(FaultKind.RESPELLED, spelling=MISMATCH),
        partial(write_cause, finding(FaultKind.NOISE).args[0]),
        partial(write_recalled, "No clear cause.", SLOT),
        partial(write_also, found(FaultKind.CUT_SHORT, detail=SHORTER)),
    ],
    "Why similarity fell without a fault": [
        drop(membership=0.1),
        drop(membership=0.12, order=-0.02),
        drop(membership=-0.14, length=0.15),
        drop(composition=0.1),
        drop(order=-0.0205),
        drop(order=0),
        partial(write_unchanged),
        partial(write_unchanged, SLOT),
        drop(order=0.0019),
        drop(fall(order=0.125), order=0.125, membership=0.125),
        drop(fall(order=0.125), order=-0.02),
        partial(write_fall, fall(membership=0.1, order=0.025), 0.25),
        partial(write_fall, fall(order=0.125), 0.01),
        partial(write_fall, fall(order=-0.125), 0.25),
        partial(write_fall, fall(share=0.0, composition=0.1), 0.25),
        partial(write_distance, PartMeans(n=700, membership=0.2, order=0.1, length=0.0)),
        partial(
            write_no_cause, explanation(now=0.75, before=0.5, causes=mean_drop(order=0.25).causes)
        ),
        partial(write_falls, explanation(falls=(fall(order=0.125),)), "country=DE"),
        partial(write_alert_text, explanation(), "rbo(p=0.9)", "all"),
        alert_text(gained=(exposed("a", "Tea"), *map(exposed, "bcd")), lost=(exposed("x"),)),
        alert_text(segment="country=DE", lost=(exposed("x"),)),
        alert_text("country=UK"),
        alert_text("activity=new"),
        alert_text("country=UK", finding=found(FaultKind.CUT_SHORT), sentence="Lists are short."),
        partial(
            write_unpaired,
            None,
            {"all": 0.01, "country=DE": 0.03},
            "country=DE",
            EXCESS,
            is_clear=True,
        ),
        partial(
            write_unpaired, found(FaultKind.MIXED_UP), {"all": -0.01}, "all", EXCESS, is_clear=True
        ),
        partial(write_unpaired, None, {"all": -0.01}, "all", None, is_clear=False),
        partial(write_arms, UNPAIRED),
        partial(write_split, UNPAIRED),
        partial(write_unusable, RunReason(kind=RunReasonKind.NOT_SERVED, arm=Arm.CANDIDATE)),
        partial(write_warning, RunStatus.INSUFFICIENT, is_split_off=False),
        partial(write_faulty_lists, coverage_row(690, reasons={(Arm.CANDIDATE, "too_slow"): 34})),
        partial(write_outcomes, replace(UNPAIRED, outcomes=GAPS_OF_OUTCOMES)),
        *plain(
            unpaired,
            """
            write_needs_pairs    checkout-test
            write_changed_split  0.9, 0.5
            write_too_early      2026-11-04T00:00:00Z
            write_preference     0.25, 0.125, 0.375, 900
            write_preference     -0.25, -0.375, -0.125, 1
            write_preference     0.0, -0.125, 0.125, 900
            write_preference     0.0, -1.0, 1.0, 0
            """,
        ),
        *(partial(name_series, series.of("clicks"), "mean") for series in OUTCOME_SERIES),
        partial(
            write_split,
            replace(UNPAIRED, log_e=11.5, switched=3, served_by_other=2, served_by_any=900),
        ),
    ],
}


def golden():
    """The whole file."""
    return TITLE + "".join(map(_write_part, EXAMPLES, EXAMPLES.values()))


def _write_part(heading, examples):
    parts = [f"\n\n{heading.upper()}\n"]
    for example in examples:
        text = example()
        if not isinstance(text, str):
            text = " / ".join(filter(None, text))
        values = [*map(show, example.args)]
        values += [f"{name} {show(value)}" for name, value in example.keywords.items()]
        parts.append(_WRAP.fill(f"{example.func.__name__}: {'; '.join(values)}"))
        parts.append(f"\n{textwrap.indent(_WRAP.fill(text), '    ')}\n")
    return "\n".join(parts)


def show(value):
    """A value in a short form, without what has its default."""
    if is_dataclass(value) and not isinstance(value, type | SimilarityRule | CoverageRule):
        return ", ".join(_show_fields(value)) or "nothing"
    if isinstance(value, SimilarityRule | CoverageRule):
        return f"rule on {value.subject.statistic} of {value.subject.metric}"
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, tuple | list):
        return ", ".join(f"({show(part)})" if is_dataclass(part) else show(part) for part in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {show(part)}" for name, part in value.items() if part)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _show_fields(value):
    for field in fields(value):
        part = getattr(value, field.name)
        if part not in (field.default, None, (), {}):
            shown = show(part)
            yield f"{field.name} ({shown})" if is_dataclass(part) else f"{field.name} {shown}"
