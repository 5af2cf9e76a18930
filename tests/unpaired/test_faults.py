"""An A/B test of which nothing is known but its log: each fault is noticed soon, in one message, with its cause."""

import pytest

from drift_lists import run_cli
from tables import cells
from unpaired import world

pytestmark = pytest.mark.integration  # seconds of CPU

BEGINS, DAYS = 13, 15
HEALTHY = world.World()
FAULTS = {
    "healthy": {},
    "mixed up": {"fault": world.mix_up},
    "popular": {"fault": world.serve_popular},
    "reversed": {"fault": world.reverse_top},
    "better": {"fault": world.serve_better},
    "lost": {"served": ~(HEALTHY.is_candidate & HEALTHY.draw(0.2)), "begins": 1},
}
SAID = """
# fault    alert        day  says
mixed up   FarGapRise   14   get lists from the candidate that belong to other users.
popular    SharedList   14   get one and the same list from the candidate: the most popular items.
reversed   SelfGapRise  14   get the same first three items from the candidate, but in another order.
better     SelfGapRise  14   get many more new items from the candidate than usual.
lost       SplitOff     02   the users are not split as planned:
"""


def replay(fault, folder):
    """The runs, and the firings that begin."""
    world.write_log(folder / "log.parquet", HEALTHY, DAYS, **{"begins": BEGINS, **FAULTS[fault]})  # type: ignore[arg-type, dict-item]
    config = str(world.write_config(folder))
    runs = run_cli(
        "replay", "--config", config, "--since", "2026-11-02", "--until", "2026-11-16", "--json"
    )
    changes = run_cli("alerts", "--config", config, "--json")
    starts = [
        each
        for each in changes
        if (each["from_state"], each["to_state"]) in {("quiet", "firing"), ("pending", "firing")}
    ]
    (again,) = run_cli("backtest", "--config", config, "--rules", config, "--json")
    # Judged again, the stored runs have the same firings.
    judged = {name: of_rule for name, of_rule in again["rules"].items() if of_rule["pages"]}
    assert {name: {"pages": of_rule["pages"]} for name, of_rule in judged.items()} == again[
        "stored_rules"
    ]
    return runs, starts


@pytest.mark.parametrize(("fault", "alert", "day", "says"), cells(SAID))
def test_a_fault_is_noticed_in_its_first_run_in_one_message_with_its_cause(
    fault, alert, day, says, tmp_path
):
    runs, starts = replay(fault, tmp_path)
    first = next(each for each in starts if each["segment"] == "all")
    assert (first["alert"], first["slot"][:10]) == (alert, f"2026-11-{day}")
    assert says in (first["explanation"] or first["reason"])
    assert len({each["incident"] for each in starts}) == 1
    statuses = {run["status"] for run in runs}
    assert statuses == {"insufficient" if fault == "lost" else "ok"}


def test_nothing_fires_in_a_healthy_test(tmp_path):
    runs, starts = replay("healthy", tmp_path)
    assert ({run["status"] for run in runs}, starts) == ({"ok"}, [])
