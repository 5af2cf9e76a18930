"""An A/B test of which nothing is known but its log: each fault is noticed soon, in one message, with its cause."""

import shutil
from typing import Any

import pytest

from drift_lists import run_cli
from factories import DAY
from tables import cells
from unpaired import world

pytestmark = pytest.mark.slow

BEGINS, DAYS = 13, 3
"""The day on which most faults begin, and the number of days that they are looked at."""
HEALTHY = world.World(users=4000)
FAULTS: dict[str, dict[str, Any]] = {
    "healthy": {},
    "mixed up": {"fault": world.mix_up},
    "popular": {"fault": world.serve_popular},
    "reversed": {"fault": world.reverse_top},
    "better": {"fault": world.serve_better},
    "both mixed up": {"fault": world.mix_up, "both": True},
    "boost": {"fault": world.boost, "both": True},
    "old": {"fault": world.keep_some_old},
    "frozen": {"fault": (serve_last := lambda world, _, __: world.rank(BEGINS - 1))},
    "both frozen": {"fault": serve_last, "both": True},
    "lost": {"served": (most := ~(HEALTHY.is_candidate & HEALTHY.draw(0.2))), "begins": 1},
    "fewer": {"served": most},
}
SAID = """
# fault    alert                day  says
mixed up   FarGapRise   14   get lists from the candidate that belong to other users.
popular    SharedList   14   get one and the same list from the candidate: the most popular items.
reversed   SelfGapRise  14   get the same first three items from the candidate, but in another order.
better     SelfGapRise  14   get many more new items from the candidate than usual.
both mixed up  ReplacedLists  14  get lists from the baseline and candidate that belong to other users.
boost  ExposureJump  14  386 of 4,000 users (10 %), exactly the users in country=DE, get 1 item from the baseline and candidate
old        SelfGapDrop  14   get the same list from the candidate as before the test, while other lists changed.
frozen     CandidateFrozen  16   get the same list from the candidate as in the last run, while other lists changed.
both frozen  BothFrozen  16  neither arm's lists have changed in 3 runs, more than the 2 that are normal
fewer      FewerUsers   14   the candidate did not serve 2,031 of 3,619 users (56.1 %), normally 50.8 %
lost       SplitOff     02   the users are not split as planned:
"""


def run_days(folder, first, last):
    since, until = (f"{world.BEGINS + day * DAY:%Y-%m-%d}" for day in (first, last))
    config = f"{folder}/rankwatch.yaml"
    return run_cli("replay", "--config", config, "--since", since, "--until", until, "--json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The healthy days are run, and the database is copied."""
    folder = tmp_path_factory.mktemp("test")
    world.write_config(folder)
    world.write_log(folder / "log.parquet", HEALTHY, BEGINS - 1)
    assert {run["status"] for run in run_days(folder, 1, BEGINS - 1)} == {"ok"}
    shutil.copy(folder / "rankwatch.db", folder / "healthy.db")
    return folder


def replay(fault, folder):
    """The runs of the days with the fault, and the firings that begin."""
    log: dict[str, Any] = {"begins": BEGINS, **FAULTS[fault]}
    first = log["begins"]
    for file in folder.glob("rankwatch.db*"):
        file.unlink()
    if first == BEGINS:
        shutil.copy(folder / "healthy.db", folder / "rankwatch.db")
    last = first + DAYS - 1
    world.write_log(folder / "log.parquet", HEALTHY, last, **log)
    runs = run_days(folder, first, last)
    changes = run_cli("alerts", "--config", f"{folder}/rankwatch.yaml", "--json")
    starts = [each for each in changes if each["to_state"] == "firing"]
    return runs, starts


def assert_same_if_judged_again(folder):
    """Judged again, the stored runs have the same firings."""
    config = f"{folder}/rankwatch.yaml"
    (again,) = run_cli("backtest", "--config", config, "--rules", config, "--json")
    starts = {name: of_rule["starts"] for name, of_rule in again["rules"].items()}
    assert again["stored_rules"] == {
        name: {"starts": begun} for name, begun in starts.items() if begun
    }


@pytest.mark.parametrize("fault, alert, day, says", cells(SAID))
def test_a_fault_is_noticed_within_three_runs_in_one_message_with_its_cause(
    fault, alert, day, says, folder
):
    runs, starts = replay(fault, folder)
    first = next(each for each in starts if each["segment"] == "all")
    assert (first["alert"], first["slot"][:10]) == (alert, f"2026-11-{day}")
    assert says in (first["explanation"] or first["reason"])
    assert len({each["incident"] for each in starts}) == 1
    statuses = {run["status"] for run in runs}
    assert statuses == {"insufficient" if fault == "lost" else "ok"}
    if fault in {"mixed up", "lost"}:
        assert_same_if_judged_again(folder)


def test_nothing_fires_in_a_healthy_test(folder):
    runs, starts = replay("healthy", folder)
    assert ({run["status"] for run in runs}, starts) == ({"ok"}, [])
