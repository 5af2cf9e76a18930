"""A comparison with four stored runs, in which every name may be hostile, and the application over it."""

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

import factories
import published
from factories import DAY, HOUR, SLOT, HeldClock
from monitor.model.alerts import State
from monitor.model.model_versions import ArmModel
from monitor.model.rankings import Arm
from monitor.model.runs import KeptLists
from storage.worked import claimed, evidence, runs_of, scores
from web.sites import running

SLOTS = [SLOT + number * DAY for number in range(4)]
METRIC = "extended_tau"
KEY = "key-1"
EVIL = '<script>alert(1)<\\script>"&{{7*7}} \u202e\x1b[2J..'


def fill(store, name="home-feed", user="u1", item=None):
    """Four runs of one comparison, the last of which fires. The lists of this user and of `zz` are stored."""
    item = item or name
    baseline, candidate = [item, "i2", "i3"], ["i2", item, "i4"]
    explained = published.explanation()
    gained = replace(explained.gained[0], item=item, title=item)
    expected = factories.expectation(alert="SimilarityDrop", limit=0.4, opposite=0.6, z=3.5)
    place = f"country={name}"
    for number, slot in enumerate(SLOTS):
        claim = claimed(store, slot, comparison=name)
        is_last = number == 3
        mean = 0.25 if is_last else 0.5
        alert = {"comparison": name, "since": slot, "dedup_key": KEY, "incident": KEY}
        state = factories.state(
            state=State.FIRING, judged_slot=slot, reason=f"{name} as judged", **alert
        )
        change = factories.transition(
            slot=slot, at=slot, explanation=name, from_state=State.QUIET, reason=name, **alert
        )
        result = published.result(
            claim=claim,
            reason=name,
            models={
                Arm.CANDIDATE: ArmModel(now=name, before=name, since=slot, users={name: 3, "v2": 1})
            },
            coverage=published.coverage(),
            summaries=(
                factories.summary(mean=mean),
                factories.summary(segment=place, mean=mean / 2, n=9),
            ),
            arm_scores=(published.arm_score(segment=name),),
            catalogue_size=1000,
            scores=[scores({METRIC: {user: mean, "zz": 1.0}})],
            evidence=(
                evidence(
                    user=user,
                    baseline=tuple(baseline),
                    candidate=tuple(candidate),
                    scores={METRIC: mean},
                ),
            ),
            lists=KeptLists(
                baseline=factories.rankings({user: baseline, "zz": ["i1"]}),
                candidate=factories.rankings({user: candidate, "zz": ["i1"]}),
                segments={"all": np.arange(2)},
            ),
            explanation=replace(explained, metric=METRIC, sentence=name, gained=(gained,)),
            expectations=(expected, replace(expected, segment=place)),
            states=(state,) if is_last else (),
            transitions=(change,) if is_last else (),
        )
        assert store.runs.finish(result, receivers=["pager"])


def application(store, **given):
    """The pages over the store, as of six hours after its newest run."""
    names = {run.comparison for run in runs_of(store)}
    latest = store.history.latest(sorted(names))
    clock = HeldClock(SLOTS[-1] + 6 * HOUR)
    return published.pages(**{"store": store, "clock": clock, "latest": latest, **given})


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    text: str

    def json(self):
        return json.loads(self.text)

    @property
    def words(self):
        return words_of(self.text)


def words_of(page):
    """The text of a page without its tags."""
    return re.sub("<[^>]*>", "", page)


@contextmanager
def browsing(app):
    """A function that requests pages from a real server of the application."""
    with running(app) as site:

        def ask(path):
            status, headers, body = site.get(path)
            return Answer(status, headers, body.decode())

        yield ask
