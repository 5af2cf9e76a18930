"""A candidate that answers with the baseline's lists: noticed, named, ended.

And no alarm where many lists are alike anyway.
"""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest

from factories import MINUTE, SLOT, summary
from monitor.model.alerts import Outcome, State
from monitor.model.rankings import Arm
from monitor.model.runs import ArmScore
from monitor.pipeline.judgement import Rejudgement
from published import record
from settings.minimal import MINIMAL, comparison_of
from tables import cells

WATCHED = comparison_of(f"{MINIMAL}    rules: default\n")
USERS = {"all": 500, "country=NL": 88}


@cache
def after(share):
    """Twenty healthy runs with this share of identical lists were judged."""
    rejudging = Rejudgement(comparison=WATCHED)
    seen = play(healthy(20, share), rejudging, first=0)
    return rejudging, seen


def play(runs, rejudging, first=20):
    """The states of the alert by segment after each run, from the users with identical lists by segment."""
    seen = []
    for number, counts in enumerate(runs, start=first):
        scores = tuple(
            ArmScore(
                segment=name,
                arm=Arm.CANDIDATE,
                metric="identical_list",
                value=count / USERS[name],
                n=USERS[name],
            )
            for name, count in counts.items()
        )
        rejudging.judge(record(SLOT + number * 15 * MINUTE, summary(), arm_scores=scores))
        seen.append({name: rejudging.states["IdenticalLists", name] for name in USERS})
    return seen


def healthy(runs, share):
    rng = np.random.default_rng(3)
    return [
        {name: int(rng.binomial(users, share)) for name, users in USERS.items()}
        for _ in range(runs)
    ]


FAULTS = """
# segment   all  NL  said
all         500  88  500 of 500 users, normally 0.8
all         150  26  150 of 500 users (30 %), normally 0.8
country=NL  92   88  88 of 88 users of country=NL, normally
"""


@pytest.mark.parametrize(("segment", "everybody", "dutch", "said"), cells(FAULTS))
def test_identical_lists_alert_in_the_second_run_and_end_in_the_second_good_run(
    segment, everybody, dutch, said
):
    fault = {"all": int(everybody), "country=NL": int(dutch)}
    runs = [fault, fault, fault, *healthy(22, 0.01)[20:]]
    first, second, third, healed, over = [
        each[segment] for each in play(runs, deepcopy(after(0.01)[0]))
    ]

    assert first.state is State.PENDING
    assert second.state is third.state is healed.state is State.FIRING
    assert second.reason.startswith(f"the candidate answers with the baseline's list for {said}")
    assert third.reason.endswith(" (after 20 healthy runs): is the experiment applied?")
    assert over.state is State.QUIET


@pytest.mark.parametrize("share", [0.3, 0.97, 1.0])
def test_nothing_fires_if_many_lists_are_usually_identical(share):
    rejudging, before = after(share)
    seen = [*before, *play(healthy(40, share)[20:], rejudging)]
    assert {state.state for states in seen for state in states.values()} == {State.QUIET}
    assert seen[-1]["all"].outcome is Outcome.OK
