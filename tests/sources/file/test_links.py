"""Links and names lead only to configured files. The content of other files is never shown."""

import os

import pytest

from monitor.model.errors import SourceError
from servers.lists import as_lists, pull_of

pytestmark = pytest.mark.usefixtures("own_databases")
HEADER = "user,items\n"
ROW = 'ann,"[1]"\n'


@pytest.fixture
def secret(tmp_path):
    """A file outside of the folder of lists."""
    path = tmp_path / "secret.csv"
    path.write_text(f"hunter2\n{HEADER}")
    return path


@pytest.fixture
def lists(tmp_path):
    """The folder of lists."""
    folder = tmp_path / "lists"
    folder.mkdir()
    return folder


def pulled(path, **more):
    return as_lists(
        pull_of("ann", file={"path": str(path), "user": "user", "items": "items", **more})
    )


@pytest.mark.parametrize("path", ["a.csv", "*.csv", ""])
def test_a_link_out_of_the_configured_folder_is_refused(path, lists, secret):
    (lists / "a.csv").symlink_to(secret)

    with pytest.raises(
        SourceError, match=r"symbolic link that leads out of .*: put the file itself"
    ) as caught:
        pulled(lists / path)
    assert "hunter2" not in f"{caught.value} {caught.value.shown}"


def test_links_in_the_folder_and_to_the_folder_are_followed_and_links_out_of_it_if_allowed(
    lists, secret, tmp_path
):
    secret.write_text(HEADER + ROW)
    (lists / "a.csv").symlink_to(secret)
    (lists / "day").mkdir()
    (lists / "day" / "a.csv").write_text(HEADER + ROW)
    (lists / "latest.csv").symlink_to(lists / "day" / "a.csv")
    current = tmp_path / "current"
    current.symlink_to(lists)

    assert pulled(current / "latest.csv") == {"ann": ["1"]}
    assert pulled(lists / "a.csv", follow_links=True) == {"ann": ["1"]}


@pytest.mark.parametrize(
    "header, shown",
    [
        ("hunter2,swordfish", "a.csv has no column 'user', 'items': check the path"),
        ("users,items", "no column 'user' (did you mean 'users'?): it has users, items"),
    ],
)
def test_the_columns_of_a_table_are_shown_only_where_one_is_nearly_right(header, shown, lists):
    (lists / "a.csv").write_text(f"{header}\nx,y\n")

    with pytest.raises(SourceError) as caught:
        pulled(lists / "a.csv")
    assert shown in caught.value.shown
    assert "hunter2" not in f"{caught.value} {caught.value.shown}"


def test_a_folder_without_parts_is_no_folder_that_does_not_exist(lists):
    (lists / "gone").symlink_to(lists / "nothing")
    os.mkfifo(lists / "pipe")

    for path in (lists, lists / "*.csv"):
        with pytest.raises(SourceError, match="has no file: check the path") as caught:
            pulled(path)
        assert not caught.value.permanent


def test_a_part_that_is_a_link_to_nothing_is_named(lists):
    (lists / "a.csv").symlink_to(lists / "nothing.csv")

    with pytest.raises(SourceError, match=r"a\.csv is a link to a file that does not exist"):
        pulled(lists)
