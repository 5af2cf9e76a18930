"""Complete values that a daemon would publish, for tests of export, web and deploy. Any field can be changed."""

from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace

import factories
from factories import DAY, HOUR, MINUTE, SECOND
from monitor.export.publisher import PrometheusPublisher
from monitor.model.alerts import Outcome, State
from monitor.model.daemon_state import DaemonState, Role, RoleKind
from monitor.model.explanation import (
    Change,
    DropPart,
    ExampleLists,
    Explanation,
    ExposedItem,
    PartAmount,
    SegmentFall,
    UserGroup,
)
from monitor.model.immutable import extend
from monitor.model.model_versions import ArmModel
from monitor.model.rankings import Arm, Coverage, CoverageReason, CoverageRow
from monitor.model.retention import DataKind, Pruned
from monitor.model.runs import (
    ArmScore,
    FinishedRun,
    Histogram,
    LatestRun,
    Run,
    RunResult,
    RunStatus,
)
from monitor.model.unpaired import ArmCounts, UnpairedResults
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.web.app import create_app
from monitor.web.pages import Site
from monitor.web.pages.site import ScheduledRun, Status

SLOT = factories.SLOT
UNPAIRED = UnpairedResults(
    baseline_share=0.5,
    users=dict.fromkeys(Arm, ArmCounts(assigned=100, served=98, compared=95)),
    switched=1,
    log_e=-0.5,
)


run = partial(
    Run,
    id=1,
    comparison="home-feed",
    slot=SLOT,
    status=RunStatus.OK,
    reason=None,
    attempt=1,
    owner="test:1",
    config_hash="0" * 64,
    k=10,
    asked=200,
    paired=190,
    started_at=SLOT,
    finished_at=SLOT + 4 * SECOND,
    catalogue_size=1000,
    labels_until=SLOT + 7 * DAY,
    models={Arm.CANDIDATE: ArmModel(now="v12")},
)


def record(slot, *summaries, arm_scores=(), **changes):
    """A run of this slot with its results."""
    run_of_slot = run(slot=slot, **changes)
    return extend(FinishedRun, run_of_slot, summaries=summaries, arm_scores=tuple(arm_scores))


summary = partial(
    factories.summary,
    metric="rbo(p=0.9)",
    n=188,
    n_undefined=2,
    mean=0.625,
    standard_error=0.015625,
    statistics={"p05": 0.25, "p50": 0.6, "share_below(0.3)": 0.125},
    histogram=Histogram(low=0.0, high=1.0, counts=(40, 20, 28, 100)),
)


state = partial(
    factories.state,
    state=State.FIRING,
    streak=2,
    outcome=Outcome.BREACH,
    reason="mean 0.25 is below 0.35",
    value=0.25,
    users=188,
    dedup_key="key",
    incident="key",
)


def coverage(**changes):
    missing, short = (Arm.CANDIDATE, CoverageReason.MISSING), (Arm.BASELINE, CoverageReason.SHORT)
    by_reason = {missing: 10, short: 3}
    base = CoverageRow(segment="all", asked=200, paired=190, users_by_reason=by_reason)
    row = replace(base, **changes)
    uk = replace(row, segment="country=UK", asked=50, paired=50, users_by_reason={short: 3})
    return Coverage(rows=(row, uk))


arm_score = partial(
    ArmScore, segment="all", arm=Arm.BASELINE, metric="catalogue_coverage", value=0.75, n=190
)


def explanation(**changes):
    parts = dict.fromkeys(DropPart, 0.0) | {DropPart.MEMBERSHIP: 0.25}
    item = ExposedItem(
        item="i9", title="Tea", before=0.0, after=0.5, share_before=0.0, share_after=0.75
    )
    lists = ExampleLists(user="u1", baseline=("i1",), candidate=("i9",))
    base = Explanation(
        metric="extended_tau",
        sentence="No clear cause. Similarity fell by 0.2500: items replaced 100 %.",
        segment="country=UK",
        now=0.75,
        before=0.5,
        gained=(item,),
        lost=(replace(item, item="i1", title=None, before=0.5, after=0.0),),
        entered=1,
        left=2,
        groups=(
            UserGroup(
                change=Change.REPLACED,
                users=9,
                share=0.5,
                share_before=0.25,
                distance=0.125,
                examples=(lists,),
            ),
        ),
        causes=(PartAmount(part=DropPart.MEMBERSHIP, amount=0.25),),
        falls=(
            SegmentFall(
                segment="country=UK", share=0.25, share_before=0.25, parts=parts, excess=0.125
            ),
        ),
        paired=18,
        arm=Arm.CANDIDATE,
        since=SLOT,
    )
    return replace(base, **changes)


def latest(**changes):
    base = extend(
        LatestRun,
        run(),
        coverage=coverage(),
        summaries=(
            summary(),
            summary(segment="country=UK", n=50, n_undefined=0, mean=0.5),
            summary(metric="floor(rbo(p=0.9))", n=180, mean=0.75),
            summary(metric="over_floor(rbo(p=0.9))", n=180, mean=0.125),
        ),
        states=(state(),),
        last_ok_slot=SLOT,
        last_ok_at=SLOT + 4 * SECOND,
        expectations=(factories.expectation(expected=0.625, limit=0.5, opposite=0.75, z=3.5),),
        arm_scores=(arm_score(), arm_score(arm=Arm.CANDIDATE, value=0.125)),
        unlabelled=3,
        first_slot=SLOT - DAY,
        explanation=explanation(),
    )
    return replace(base, **changes)


def named(comparison, status=RunStatus.OK):
    """A comparison of that name whose newest run has this status."""
    states = (state(comparison=comparison),)
    return latest(comparison=comparison, status=status, states=states)


def result(**changes):
    claim = changes.pop("claim", factories.claim())
    base = RunResult(
        claim=claim,
        slot=claim.slot,
        status=RunStatus.OK,
        reason=None,
        finished_at=SLOT + 4 * SECOND,
        config_hash="0" * 64,
        k=10,
        stage_seconds={"pull": 3.0, "score": 0.5},
        pull_seconds={Arm.BASELINE: 3.0, Arm.CANDIDATE: 2.5},
        gap_s={"candidate": {"0.5": 0.1, "0.99": 0.5}},
    )
    return replace(base, **changes)


def filled():
    """A publisher that shows at least one sample of every series."""
    return fill(PrometheusPublisher(version="1.2.3"))


def fill(publisher):
    """The same publisher, after it has published everything."""
    interval = {"home-feed": 15 * MINUTE}
    publisher.register(
        ["home-feed"],
        ["pager"],
        intervals=interval,
        stale_after={"home-feed": HOUR},
        pings=["ping"],
    )
    publisher.reloaded(ok=True, at=SLOT)
    gap = summary(metric="self_gap(rbo(p=0.9))", statistics={})
    newest = latest()
    newest = replace(newest, summaries=(*newest.summaries, gap), unpaired=UNPAIRED)
    publisher.publish([newest])
    publisher.run_finished(result(claim=factories.claim(started_at=SLOT + SECOND)))
    publisher.count("slots_skipped_total", "home-feed", "missed", value=2)
    publisher.count("notifications_total", "pager", "sent")
    publisher.show_deliveries({"pager": (3, 7.5)}, {"pager": (2, 0.0)}, {"pager": 1})
    publisher.show("database_up", 1)
    publisher.show_database_sizes({DataKind.SCORES: 4096})
    publisher.pruned(Pruned(deleted_by_kind={DataKind.SCORES: 6, DataKind.LISTS: 2}), at=SLOT)
    publisher.show("leader", 1)
    publisher.show("lease_epoch", 7)
    publisher.show("runs_waiting", 4)
    publisher.show("certificate_expiry_timestamp_seconds", 2e9)
    return publisher


WELL = SimpleNamespace(unhealthy=lambda: None, unready=lambda: None)
"""The state of a healthy daemon."""


def site(**given):
    """The data of pages: what is given, and nothing else."""
    status = Status(
        version="1.2.3",
        started_at=SLOT,
        daemon=DaemonState(role=Role(kind=RoleKind.LEADER, leader="host:1", epoch=7)),
        unready=None,
        database="sqlite",
        schedule=(ScheduledRun(comparison="home-feed", next_at=SLOT, running_s=None),),
        receivers=("pager",),
        configuration="comparisons: []",
    )
    told = {
        "status": lambda: status,
        "message_text": lambda message: plain_text(content_of(message, "http://here")),
    }
    return Site(
        **{"store": None, "clock": factories.HeldClock(), "comparisons": {}, **told, **given}
    )


def pages(**given):
    """The application that shows what is given, and nothing else."""
    shown = {each.name: given.pop(each.name) for each in fields(Site) if each.name in given}
    nothing = {"metrics": lambda *_: (b"page\n", {}), "health": WELL, "reload": lambda: False}
    shown = site(**shown)
    return create_app(**{"site": lambda: shown, **nothing, **given})
