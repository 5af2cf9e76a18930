import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial

import numpy as np
import pytest

from factories import DAY, SECOND, SLOT, changed, claim, comparison, coverage_rule, pull, rule
from monitor.model.alerts import Outcome, State
from monitor.model.errors import OutputError, SourceError
from monitor.model.memory import Memory
from monitor.model.model_versions import follow_models
from monitor.model.rankings import Arm, CoverageReason, Traces
from monitor.model.rules import Keep, Learning
from monitor.model.runs import EvidenceKind, MeasuredRun, RunStatus
from monitor.pipeline import run as running
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.run import execute
from monitor.sources import SampleOptions
from monitor.statistics.sequential.gate import CERTAIN, is_certain, round_ends
from monitor.texts.run_reasons import write_headline
from pipeline.canned import CannedRelevance, CannedWeights, StillClock, arms, ran, users
from published import run
from tables import cells

FULL = comparison(k=2, min_paired_share=0.5, rules=(rule(for_runs=1, min_users=1),))


def test_a_run_measures_every_segment_and_keeps_evidence_and_scores():
    opened = arms("a:12 b:34", "a:12 b:56", users("a", "b", country=["UK", "DE"]))
    result = execute(FULL, opened, claim(), Memory(), StillClock())

    for arm in (opened.baseline, opened.candidate):
        (request,) = arm.requests
        assert list(request.users) == ["a", "b"]
        assert request.k == 2
        assert request.slot == SLOT
        assert 0 < request.timeout_s <= 600
    assert result.status == RunStatus.OK
    assert result.reason is None
    means = {f"{each.metric} {each.segment}": each.mean for each in result.summaries}
    assert means == {
        "extended_tau all": 0.0,
        "extended_tau country=DE": -1.0,
        "extended_tau country=UK": 1.0,
        "rbo(p=0.9) all": 0.5,
        "rbo(p=0.9) country=DE": 0.0,
        "rbo(p=0.9) country=UK": pytest.approx(1.0),
    }
    assert {each.kind for each in result.evidence} == {EvidenceKind.WORST}
    assert [(each.user, each.baseline, each.candidate) for each in result.evidence] == [
        ("b", ("3", "4"), ("5", "6")),
        ("a", ("1", "2"), ("1", "2")),
    ]
    (scores,) = result.scores or ()
    assert list(scores.users) == ["a", "b"]
    assert scores.by_metric["extended_tau"].tolist() == [1.0, -1.0]
    assert " ".join(sorted(result.stage_seconds)) == "arms explain pair pull score summarize users"
    (change,) = result.transitions
    assert change.from_state == State.QUIET
    assert change.to_state == State.FIRING


def test_a_full_run_sets_every_field_of_its_findings():
    """If `measure_slot` forgot a measured value, the value would be stored as nothing."""
    found = pull("a:12")
    traces = Traces(came_s=np.ones(1), age_s=np.full(1, np.nan), ids=np.full(1, np.nan))
    traced = replace(found, versions={"v1": 1}, rankings=replace(found.rankings, traces=traces))
    full = comparison(
        k=2,
        metrics=("extended_tau", "ndcg"),
        arm_metrics=("catalogue_coverage",),
        keep_lists=Keep.ALL,
    )
    result = ran(full, traced, traced, relevance=CannedRelevance({SLOT: {"a": {2: 1.0}}}))
    names = [each.name for each in fields(MeasuredRun)]
    unset = [name for name in names if getattr(result, name) in (None, False, (), {})]
    # The run is ok and paired, and nothing is odd about its ids.
    assert unset == ["reasons", "unpaired", "id_mismatches"]


def test_users_added_for_a_segment_change_nothing_but_that_segment():
    names = [f"u{place:02}" for place in range(40)]
    baseline = pull({name: [1, 2] for name in names})
    candidate = pull({name: [1, place] for place, name in enumerate(names, 2)})
    asked = users(*names, country=["DE", *["UK"] * 9] * 4)
    what = comparison(k=2, arm_metrics=("catalogue_coverage",))
    sizes = (SampleOptions(fixed=12, minimum=least) for least in (None, 4))
    plain, topped = (ran(changed(what, sample=size), baseline, candidate, asked) for size in sizes)

    def of_all(run):
        measured = [*run.summaries, *run.arm_scores]
        found = [each for each in measured if each.segment == "all"]
        return [*found, run.split, run.explanation]

    counts = {row.segment: row.asked for row in topped.coverage.rows}
    assert counts["all"] == 12
    assert counts["country=DE"] == 4
    assert of_all(topped) == of_all(plain)


def test_a_dead_arm_fails_the_run_and_judges_nothing_as_similar_or_drifted():
    result = ran(FULL, "a:12", SourceError("lists/2024-01-08.parquet: no such file"))
    assert result.status == RunStatus.FAILED
    assert not result.summaries
    assert not result.transitions
    assert result.reason == (
        "the candidate gave no list for 1 of 1 users: lists/2024-01-08.parquet: no such file; the "
        "baseline answered 1 of 1; nothing could be compared"
    )
    assert result.coverage.all.users_by_reason == {(Arm.CANDIDATE, CoverageReason.UNAVAILABLE): 1}
    assert [state.outcome for state in result.states] == [Outcome.ERROR]


def test_if_no_user_is_found_because_of_the_spelling_the_run_names_this_cause():
    names = [f"u{number}" for number in range(12)]
    baseline = pull({name: [1, 2] for name in names})
    candidate = pull({name.upper(): [1, 2] for name in names})
    listed = {Arm.CANDIDATE: users(*map(str.upper, names))}
    result = ran(FULL, baseline, candidate, users(*names), listed=listed)
    other = "has other ids for users, such as 'U0' for 'u0'"
    assert result.reason.startswith(f"the candidate gave no list for 12 of 12 users: {other}; ")
    assert write_headline(result.reasons) == f"candidate {other} (12 of 12 users)"


def test_a_half_empty_panel_is_insufficient_and_its_low_scores_raise_no_alert():
    result = ran(FULL, "a:12 b:12 c:12", pull("a:89", {"b": CoverageReason.TIMEOUT}))
    assert result.status == RunStatus.INSUFFICIENT
    assert not result.transitions
    assert result.reason == (
        "only 1 of 3 users (33 %) could be compared, under min_paired_share 50 %: the candidate "
        "gave no list for 2 of 3 users: left them out (1 of them), timeout (1 of them); the "
        "baseline answered 3 of 3; the run's deadline is 600s"
    )
    assert [state.outcome for state in result.states] == [Outcome.NO_DATA]


def test_runs_name_why_an_arm_failed_and_a_failed_run_names_the_last_good_run_and_what_changed():
    baseline = "a:12 b:12"
    half = pull("a:12", {"b": CoverageReason.SERVER_ERROR})
    half = replace(half, notes={CoverageReason.SERVER_ERROR: "recs answered 503"})
    failing = coverage_rule("failed(candidate)", threshold=0.2, for_runs=1, min_users=1)
    shares = comparison(k=2, rules=(failing, rule(min_users=1, score_range=(-1.0, 1.0))))

    result = ran(shares, baseline, half)

    cause = "recs answered 503; the baseline answered 2 of 2; for example b"
    assert result.status == RunStatus.OK
    assert result.reason == f"the candidate gave no list for 1 of 2 users: {cause}"
    (alert,) = result.transitions
    assert alert.reason == (
        f"the candidate gave no usable answer for 1 of 2 users (50 %): {cause}; more than the "
        "20 % allowed"
    )
    assert [each.outcome for each in result.states] == [Outcome.BREACH, Outcome.NO_DATA]
    (thin,) = ran(changed(shares, min_paired_share=0.9), baseline, half).transitions
    few = "only 1 of 2 users (50 %) could be compared, under min_paired_share 90 %"
    assert thin.reason.endswith(f": {cause}; {few}; more than the 20 % allowed")
    memory = Memory(last_ok=run(slot=SLOT - DAY), learning_since=SLOT)
    learning = comparison(rules=(rule(learned=Learning.DROP),))
    failed = ran(learning, "", "", users("a"), memory=memory)
    assert failed.reason.endswith(
        "; the configuration of this comparison changed before the run of 2024-01-08T00:00:00Z; "
        "rules that learn begin again from there; last good run: 2024-01-07T00:00:00Z"
    )


def test_if_both_arms_fail_each_alert_says_so_once():
    dead = pull("", {"a": CoverageReason.SERVER_ERROR})
    rules = tuple(
        coverage_rule(f"failed({arm})", alert=arm, threshold=0.2, for_runs=1, min_users=1)
        for arm in Arm
    )

    result = ran(comparison(k=2, rules=rules), dead, dead, users("a"))

    lost = "; ".join(f"the {arm} gave no list for 1 of 1 users: server_error" for arm in Arm)
    said = f"both arms failed, so look for a common cause: {lost}; nothing could be compared"
    assert result.reason == said
    assert [each.reason for each in result.transitions] == [
        f"{said}; more than the 20 % allowed"
    ] * 2


def test_a_run_names_what_changed_since_the_last_run():
    models = follow_models(None, {Arm.CANDIDATE: {"v12": 9}}, SLOT - DAY)
    last = run(slot=SLOT - DAY, config_hash="other", models=models)
    old = pull("a:12")

    other = ran(FULL, old, replace(old, versions={"v13": 1}), memory=Memory(last_ok=last))
    assert other.reason == (
        "the configuration of the measurement changed: k 10 → 2; the candidate's model changed "
        "with this run, v12 → v13"
    )
    assert other.models == follow_models(models, {Arm.CANDIDATE: {"v13": 1}}, SLOT)
    same = ran(FULL, old, old, memory=Memory(last_ok=replace(last, config_hash=FULL.config_hash)))
    assert same.reason is None
    assert same.input_hash == other.input_hash


@pytest.mark.parametrize(
    "keep, kept, batch_users", [(Keep.NONE, 0, 3), (2, 2, 1), (9, 4, 3), (Keep.ALL, 4, 100)]
)
def test_scores_and_lists_are_kept_for_the_configured_number_of_users(
    monkeypatch, keep, kept, batch_users
):
    measure = partial(running.measure_slot, batch_users=batch_users)
    monkeypatch.setattr(running, "measure_slot", measure)
    countries = {"a": "DE", "b": "UK", "c": "DE", "d": "UK"}
    frugal = comparison(k=2, keep_scores=keep, keep_lists=keep)
    asked = users(*countries, country=list(countries.values()))
    result = ran(frugal, "a:12 b:12 c:12 d:12", "a:23 b:24 c:25 d:26", asked)
    assert result.summaries[0].n == 4
    assert len({each.user for each in result.evidence}) == 4
    stored = [user for scores in result.scores or () for user in scores.users]
    assert len(stored) == kept
    if result.lists is None:
        assert kept == 0
        return
    assert list(result.lists.candidate.users) == stored
    assert list(result.lists.candidate.items[1::2]) == ["abcd".index(user) + 3 for user in stored]
    for name, rows in result.lists.segments.items():
        segments = {user: ("all", f"country={countries[user]}") for user in stored}
        assert [stored[row] for row in rows] == [user for user in stored if name in segments[user]]


@dataclass
class CannedSink:
    """Keeps what is written, or raises an error."""

    trouble: OutputError | None = None
    written: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, slot, metrics, about):
        if self.trouble is not None:
            raise self.trouble
        yield lambda scores: self.written.append(f"{about['status']} {len(scores.users)}")


WRITTEN = """
# candidate's users  earlier run  sink     written         reason
a b                  -            takes    ok 2            None
a b                  ok           refuses  -               scores_to: no
a                    -            takes    insufficient 1  only 1 of 2 users
a                    ok           takes    -               only 1 of 2 users
-                    -            takes    -               the candidate gave no list for 2 of 2 users
"""


def test_the_sink_gets_all_scores_but_scores_of_an_ok_run_are_only_replaced_by_an_ok_run():
    for answered, earlier, does, written, reason in cells(WRITTEN):
        sink = CannedSink(OutputError("scores_to: no") if does == "refuses" else None)
        lists = (
            pull({name: [1, 2] for name in "ab"}),
            pull({name: [1, 2] for name in answered.split() if name != "-"}),
        )
        told = comparison(k=2, keep_scores=Keep.NONE, min_paired_share=0.9)
        opened = arms(*lists, users("a", "b"), scores_to=sink)
        result = execute(told, opened, claim(has_ok_run=earlier == "ok"), Memory(), StillClock())
        assert (sink.written or ["-"]) == [written]
        assert result.scores is None
        assert str(result.reason).startswith(reason)


def test_a_segment_with_too_few_paired_users_is_not_judged_shown_or_kept():
    names = [f"u{i:02}" for i in range(30)]
    candidate = {name: [1, 2] for name in names[:20]} | {name: [8, 9] for name in names[20:23]}
    watched = rule(for_runs=1, min_users=1, segments=("all", "country=DE", "country=UK"))
    watching = comparison(
        k=2, rules=(watched,), arm_metrics=("catalogue_coverage",), keep_lists=Keep.ALL
    )
    asked = users(*names, country=["DE"] * 20 + ["UK"] * 10)
    result = ran(watching, pull({name: [1, 2] for name in names}), pull(candidate), asked)
    measured = [{each.segment for each in found} for found in (result.summaries, result.arm_scores)]
    assert [*measured, set(result.lists.segments)] == [{"all", "country=DE"}] * 3
    *_, kingdom = result.states
    assert result.status == RunStatus.OK
    assert kingdom.outcome == Outcome.NO_DATA
    assert kingdom.state == State.QUIET
    assert not result.transitions
    assert (
        kingdom.reason
        == "too few users of country=UK could be compared: 3 of 10 users, under min_paired_share 50 %"
    )


def test_both_arms_are_requested_at_the_same_time():
    both = threading.Barrier(2)

    class Hung(threading.Event):
        def wait(self, timeout=None):
            return both.wait(timeout) >= 0

    ran(comparison(k=2, deadline=60 * SECOND), Hung(), Hung(), users("a"))
    assert not both.broken


RUNS = 2_000
USERS = 100
NAMES = [f"u{place:03}" for place in range(400)]
LOW = rule(metric="overlap", threshold=0.5, score_range=(0.0, 1.0), min_users=10, segments="each")
STOPPING = comparison(
    k=2, metrics=("overlap",), sample=SampleOptions(fixed=300, stop_when="decided"), rules=(LOW,)
)


@pytest.mark.parametrize(
    "counts, off, most_asked",
    [((10, 0, 90), -1e-6, USERS), ((2, 50, 48), 1e-6, USERS), ((10, 0, 90), -0.3, USERS / 2)],
)
def test_early_stops_are_wrong_at_most_as_often_as_promised(counts, off, most_asked):
    scores = np.repeat([-1.0, 0.8, 1.0], counts)
    orders = np.random.default_rng(2).permuted(np.tile(scores, (RUNS, 1)), axis=1)
    limit = float(scores.mean()) + 2 * off
    wrong = 0
    asked = np.full(RUNS, USERS)
    for end in round_ends(USERS)[:-1]:
        is_new = is_certain(
            rule(threshold=limit, score_range=(-1.0, 1.0)), orders[:, :end], USERS
        ) & (asked == USERS)
        wrong += int((is_new & ((orders[:, :end].mean(axis=1) < limit) != (off > 0))).sum())
        asked[is_new] = end
    assert wrong <= CERTAIN * RUNS
    assert asked.mean() <= most_asked


def asked_of(good, what=STOPPING, **more):
    """A run in which this share of the users have equal lists, and the users of each round."""
    lists = {name: [1, 2] if place < good * 400 else [3, 4] for place, name in enumerate(NAMES)}
    both = arms(
        pull({name: [1, 2] for name in NAMES}),
        pull(lists),
        users(*NAMES, x=["a", "b"] * 200),
        **more,
    )
    result = execute(what, both, claim(), Memory(), StillClock())
    first, other = both.baseline.requests, both.candidate.requests
    asked = [list(each.users) for each in first]
    assert asked == [list(each.users) for each in other]
    return result, asked


@pytest.mark.parametrize(
    "good, outcome, more",
    [
        (1.0, Outcome.OK, {"weights": CannedWeights({1: 1.0})}),
        (0.0, Outcome.BREACH, {"pseudonyms": Pseudonyms(b"key")}),
    ],
)
def test_a_run_requests_no_more_users_after_its_verdicts_are_certain(good, outcome, more):
    result, rounds = asked_of(good, **more)
    everybody = [name for asked in rounds for name in asked]
    assert [state.outcome for state in result.states] == [outcome] * 3
    assert (
        result.coverage.all.asked
        == result.coverage.all.paired
        == len(everybody)
        == len(set(everybody))
        < 100
    )
    assert 0.1 < np.mean([name < "u200" for name in everybody]) < 0.9


def test_a_run_that_is_never_certain_measures_the_whole_panel():
    at_once, _ = asked_of(0.5, changed(STOPPING, sample=SampleOptions(fixed=300)))
    for rules in ((LOW,), ()):
        result, rounds = asked_of(0.5, changed(STOPPING, rules=rules))
        assert len(rounds) == len(round_ends(300))
        assert result.summaries == at_once.summaries
        assert result.coverage == at_once.coverage
