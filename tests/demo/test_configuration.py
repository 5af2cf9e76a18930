from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.demo.story import FAST_STORY, NORMAL_STORY
from monitor.demo.workspace import (
    DEMO_COMPARISON,
    DEMO_METRICS,
    EXPECTED_ALERTS,
    DemoAddresses,
    Workspace,
    write_configuration,
    write_secret,
    write_users,
)
from monitor.demo.world import World
from monitor.model import CONDITION, Direction
from monitor.settings import Settings, load_settings, to_comparison, to_schedule
from monitor.sources import open_users

ADDRESSES = DemoAddresses(
    listen="127.0.0.1:29108",
    baseline="http://127.0.0.1:1001",
    candidate="http://127.0.0.1:1002",
    hook="http://127.0.0.1:1003/page",
)


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = Workspace(tmp_path)
    write_secret(place)
    write_users(place, World().history(0))
    write_configuration(place, ADDRESSES, every="2s")
    return place


@pytest.fixture
def settings(place: Workspace) -> Settings:
    return load_settings(place.config)


@pytest.mark.parametrize("every", [NORMAL_STORY.every, FAST_STORY.every])
def test_the_configuration_loads_at_each_storys_pace(place: Workspace, every: str) -> None:
    write_configuration(place, ADDRESSES, every=every)
    (comparison,) = load_settings(place.config).comparisons
    assert to_schedule(comparison).interval.total_seconds() == float(every.removesuffix("s"))


def test_database_listen_address_and_comparison_are_those_of_the_demo(place: Workspace, settings: Settings) -> None:
    assert settings.database.get_secret_value() == f"sqlite:///{place.database}"
    assert settings.listen_address == ("127.0.0.1", 29108)
    comparison = to_comparison(settings.comparisons[0])
    assert (comparison.name, comparison.k, comparison.metrics) == (DEMO_COMPARISON, 10, DEMO_METRICS)


def test_rules_are_those_that_the_fault_should_break(settings: Settings) -> None:
    low, apart = (rule for rule in to_comparison(settings.comparisons[0]).rules if rule.metric != CONDITION)
    assert {low.alert, apart.alert} == {alert for alert, _ in EXPECTED_ALERTS}
    assert (low.direction, low.threshold, low.resolve_at, low.segments, low.for_runs) == (Direction.BELOW, 0.4, 0.5, "each", 2)
    assert (apart.direction, apart.threshold, apart.resolve_at, apart.segments) == (Direction.ABOVE, 0.1, 0.05, "all")
    assert apart.statistic == "share_below(0.3)"


def test_the_users_file_is_read_by_the_users_source_it_names(settings: Settings) -> None:
    source = open_users(settings.comparisons[0].users, settings.comparisons[0].baseline)
    table = source.users(datetime(2026, 3, 1, tzinfo=UTC), ("country", "activity"))
    assert len(table) == 1500
    assert set(table.segments["country"].categories) == {"DE", "FR", "UK", "US"}
    source.close()
