import csv
from pathlib import Path

import pytest

from monitor.demo.servers import ACTIVITIES, COUNTRIES, Shop
from monitor.demo.session import Workspace, open_workspace, write_configuration, write_users
from monitor.demo.simulation import DEMO_COMPARISON, DEMO_METRICS, EXPECTED_ALERTS, FAST_STORY, NORMAL_STORY
from monitor.errors import ConfigError
from monitor.settings.loader import load_settings
from monitor.settings.translation import to_comparison, to_schedule


def test_a_new_directory_is_made_and_ignored_by_git(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "a" / "b")
    with open_workspace(workspace):
        assert workspace.directory.is_dir()
        assert (workspace.directory / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_what_an_earlier_demo_left_is_removed_and_what_somebody_added_stays(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with open_workspace(workspace):
        wal = workspace.database.with_name("rankwatch.db-wal")
        ours = (workspace.config, workspace.database, wal, workspace.users, workspace.log)
        for path in (*ours, tmp_path / "notes.txt"):
            path.write_text("old", encoding="utf-8")
    with open_workspace(Workspace(tmp_path)):
        assert not any(path.exists() for path in ours)
        assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "old"


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rankwatch.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds files that the demo did not write"), open_workspace(Workspace(tmp_path)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["rankwatch.yaml"]


def test_a_second_demo_in_the_same_directory_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with open_workspace(workspace):
        workspace.config.write_text("the first one's", encoding="utf-8")
        with pytest.raises(ConfigError, match="another demo is running"), open_workspace(Workspace(tmp_path)):
            pass
        assert workspace.config.exists()
    with open_workspace(Workspace(tmp_path)):
        pass


def test_a_file_in_the_way_is_a_one_line_error(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    with (
        pytest.raises(ConfigError, match=r"cannot write to .*taken: File exists; name another directory with --dir"),
        open_workspace(Workspace(taken)),
    ):
        pass


def test_the_users_file_lists_everyone_with_activity_and_country_under_the_segments_that_are_shown(tmp_path: Path) -> None:
    shop = Shop(users=60, items=20)
    workspace = Workspace(tmp_path)
    with open_workspace(workspace):
        write_users(workspace, shop)
        with workspace.users.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    assert [row["user_id"] for row in rows] == shop.ids
    found = {f"{column}={row[column]}" for row in rows for column in ("country", "activity")}
    named = [*(f"country={name}" for name in COUNTRIES), *(f"activity={name}" for name in ACTIVITIES)]
    assert found == set(named)


@pytest.mark.parametrize("every", [NORMAL_STORY.every, FAST_STORY.every])
def test_the_configuration_is_that_of_the_demo_at_each_storys_pace(tmp_path: Path, every: str) -> None:
    workspace = Workspace(tmp_path)
    write_configuration(workspace, url="http://127.0.0.1:1001", every=every)
    settings = load_settings(workspace.config)
    assert settings.database.get_secret_value() == f"sqlite:///{workspace.database}"
    (options,) = settings.comparisons
    assert to_schedule(options).interval.total_seconds() == float(every.removesuffix("s"))
    comparison = to_comparison(options)
    assert (comparison.name, comparison.measuring.k, comparison.measuring.metrics) == (DEMO_COMPARISON, 10, DEMO_METRICS)
    assert {rule.alert for rule in comparison.judging.rules} >= {alert for alert, _ in EXPECTED_ALERTS}
