"""Replay over real lists: the default rules fire on the first bad day, and never for a healthy candidate."""

import shutil

import pytest

from commands import of_all
from drift_lists import arm_folder, compare, run_cli, source, write_config
from tables import cells

pytestmark = pytest.mark.slow

BAD_DAY = "2024-01-08"
MEASURED = """    users: {all: true, segments: [activity, country]}
    metrics: [extended_tau, "rbo(p=0.9)", overlap]
    rules: default
"""
WITH_FLOOR = {"pop20", "ok-lowtraffic"}
"""Their baseline was trained a second time."""


def replay(name, folder, until=BAD_DAY, candidate="", baseline="baseline"):
    """What begins or ends until this day, whether runs have a floor, and the explanation of the last one."""
    prefix = "ok-lowtraffic-" if name == "ok-lowtraffic" else ""
    floor = (
        f"    noise_floor: {{retrain: {source(f'{prefix}again')}}}\n" if name in WITH_FLOOR else ""
    )
    arms = {"candidate": candidate, "baseline": prefix + baseline}
    config = str(write_config(folder, compare(name, MEASURED + floor, **arms)))
    runs = run_cli(
        "replay", "--config", config, "--since", "2024-01-01", "--until", until, "--json"
    )
    assert {run["status"] for run in runs} == {"ok"}
    changes = run_cli("alerts", "--config", config, "--json")
    fired = {
        f"{each['slot'][:10]} {each['alert']} {each['segment']} {each['to_state']}"
        for each in changes
        if each["to_state"] != "pending"
    }
    (shown,) = run_cli("show", name, "--config", config, "--json")
    return (
        fired,
        {"over_floor(extended_tau)" in of_all(run) for run in runs},
        shown["explanation"],
    )


FAULTS = """
# lists         alerts                                                       segment
pop20           UsersBelowQuarter all, TailDrop all, NoiseExcess activity=q1  all            141 of 704 users (20 %) get one
seg2-nonUK-pop  SimilarityDrop country=nonUK                             country=nonUK  in country=nonUK, get one
rerank60        FirstItemDiffers all                                     all            (55 %) get many more new items
"""


@pytest.mark.parametrize("name, alarms, segment, says", cells(FAULTS))
def test_the_default_rules_fire_on_the_first_bad_day_and_name_the_fault(
    name, alarms, segment, says, tmp_path
):
    fired, _, told = replay(name, tmp_path)
    assert fired >= {f"{BAD_DAY} {alarm} firing" for alarm in alarms.split(", ")}
    assert {alarm[:10] for alarm in fired} == {BAD_DAY}
    assert told["finding"]["segment"] == segment
    assert told["finding"]["arms"] == ["candidate"]
    assert told["causes"][0]["part"] == "membership"
    assert says in told["sentence"]


def test_nothing_fires_for_a_healthy_candidate(tmp_path):
    fired, has_floor, told = replay("ok-lowtraffic", tmp_path)
    assert not fired
    assert has_floor == {True}
    assert told["finding"] is None


def test_one_alert_says_that_neither_arm_changes_and_ends_with_new_lists(tmp_path):
    """For three days, the job that publishes the lists of both arms repeats those of 9 January."""
    arms = {
        arm: str(shutil.copytree(arm_folder(arm), tmp_path / arm)) for arm in ("again", "baseline")
    }
    for folder in arms.values():
        for day in (10, 11, 12):
            shutil.copy(f"{folder}/2024-01-09.parquet", f"{folder}/2024-01-{day}.parquet")
    changes, _, _ = replay("again", tmp_path, "2024-01-13", *arms.values())
    assert changes == {"2024-01-12 BothFrozen all firing", "2024-01-13 BothFrozen all quiet"}
