import csv
import socket
import stat
from pathlib import Path

import pytest

from monitor.demo.workspace import choose_port, open_workspace, write_secret, write_users
from monitor.demo.world import World
from monitor.errors import ConfigError


def test_a_new_directory_is_made_and_ignored_by_git(tmp_path: Path) -> None:
    with open_workspace(tmp_path / "a" / "b") as place:
        assert place.directory.is_dir()
        assert (place.directory / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_what_an_earlier_demo_left_is_removed_and_what_somebody_added_stays(tmp_path: Path) -> None:
    with open_workspace(tmp_path) as place:
        wal = place.database.with_name("rankwatch.db-wal")
        ours = (place.config, place.database, wal, place.users, place.secret, place.log)
        for path in (*ours, tmp_path / "notes.txt"):
            path.write_text("old", encoding="utf-8")
    with open_workspace(tmp_path):
        assert not any(path.exists() for path in ours)
        assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "old"


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rankwatch.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds files that the demo did not write"), open_workspace(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["rankwatch.yaml"]


def test_a_second_demo_in_the_same_directory_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    with open_workspace(tmp_path) as place:
        place.config.write_text("the first one's", encoding="utf-8")
        with pytest.raises(ConfigError, match="another demo is running"), open_workspace(tmp_path):
            pass
        assert place.config.exists()
    with open_workspace(tmp_path):
        pass


def test_a_file_in_the_way_is_a_one_line_error(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    with (
        pytest.raises(ConfigError, match=r"cannot write to .*taken: File exists; name another directory with --dir"),
        open_workspace(taken),
    ):
        pass


def test_the_secret_is_new_each_time_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    secrets = []
    for name in ("one", "two"):
        with open_workspace(tmp_path / name) as place:
            secrets.append(write_secret(place))
            assert place.secret.read_text(encoding="utf-8") == secrets[-1] + "\n"
            assert stat.S_IMODE(place.secret.stat().st_mode) == 0o600
    assert len(set(secrets)) == 2
    assert all(len(secret) == 64 for secret in secrets)


def test_the_users_file_lists_everyone_with_activity_and_country_and_is_replaced_whole(tmp_path: Path) -> None:
    world = World()
    with open_workspace(tmp_path) as place:
        write_users(place, world.history(0))
        history = world.history(1)
        write_users(place, history)
        with place.users.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    assert [row["user_id"] for row in rows] == history.users.ids
    assert {row["activity"] for row in rows} == {"low", "mid", "high"}
    assert {row["country"] for row in rows} == {"DE", "FR", "UK", "US"}
    assert not list(tmp_path.glob("*.new"))


def test_a_taken_port_is_not_chosen() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 29108))
            taken.listen()
        except OSError:
            pass  # somebody else holds it, which is just as well
        port = choose_port()
    assert port != 29108
    assert port > 1023
