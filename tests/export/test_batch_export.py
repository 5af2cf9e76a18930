"""What a process that ends leaves behind: the series and the file."""

import os
import subprocess
from pathlib import Path

import pytest

import published
from monitor.errors import ConfigError
from monitor.export import (
    DAEMON_GAUGES,
    FINAL_SERIES,
    SERIES,
    Kind,
    families_of_comparison,
    require_textfile,
    write_families,
    write_textfile,
)
from servers import require

PARTS = ("_bucket", "_sum", "_count", "_gsum", "_gcount")


def left() -> bytes:
    return write_families(published.filled().final())


def names_in(page: bytes) -> set[str]:
    names = {line.partition("{")[0].partition(" ")[0] for line in page.decode().splitlines() if not line.startswith("#")}
    stems = {name.removesuffix(part) for name in names for part in PARTS if name.endswith(part)} & FINAL_SERIES
    return {name for name in names if not any(name == stem + part for stem in stems for part in PARTS)} | stems


def test_what_is_left_is_every_gauge_that_a_daemon_alone_does_not_have() -> None:
    counted = {one.name for one in SERIES.values() if one.kind in (Kind.COUNTER, Kind.HISTOGRAM)}
    assert names_in(left()) == {one.name for one in SERIES.values()} - counted - {SERIES[name].name for name in DAEMON_GAUGES}


def test_what_is_left_says_nothing_of_the_process_and_has_no_timestamps() -> None:
    lines = [line for line in left().decode().splitlines() if not line.startswith("#")]
    assert all(line.startswith("rankwatch_") for line in lines)
    assert not [line for line in lines if len(line.rpartition("}")[2].split()) > 2]


def test_a_distribution_is_whole_for_those_who_take_it_for_a_histogram() -> None:
    page = left().decode()
    labels = '{comparison="home-feed",metric="rbo(p=0.9)"}'
    for part in ("sum", "gsum"):
        assert f"rankwatch_similarity_distribution_{part}{labels} 117.5\n" in page
    for part in ("count", "gcount"):
        assert f"rankwatch_similarity_distribution_{part}{labels} 188.0\n" in page


def test_writing_what_is_left_changes_nothing_on_the_page() -> None:
    publisher = published.filled()
    before = publisher.final()
    shown = [list(family.samples) for family in before]

    write_families(families_of_comparison(before, "home-feed"))

    assert [list(family.samples) for family in before] == shown


def test_what_is_left_of_one_comparison_is_all_but_what_belongs_to_none() -> None:
    families = published.filled().final()
    of_none = ("build_info", "outbox_pending", "outbox_held", "outbox_given_up", "outbox_oldest_age_seconds")

    assert write_families(families_of_comparison(families, "other")) == b""
    one = names_in(write_families(families_of_comparison(families, "home-feed")))
    assert names_in(left()) - one == {f"rankwatch_{name}" for name in of_none}


def test_promtool_finds_nothing_to_say_about_what_is_left() -> None:
    checked = subprocess.run([require("promtool"), "check", "metrics"], input=left(), capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_textfile_may_be_read_by_everybody(tmp_path: Path) -> None:
    path = tmp_path / "rankwatch.prom"
    before = os.umask(0o077)
    try:
        for page in (b"old 1\n", b"new 2\n"):
            write_textfile(path, page)
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new 2\n", 0o644)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("rankwatch.txt", "rankwatch.txt is no textfile for node_exporter, which reads files whose names end in .prom"),
        ("gone/rankwatch.prom", "gone/rankwatch.prom cannot be written: No such file or directory"),
        ("taken.prom", "taken.prom cannot be written: Is a directory"),
    ],
)
def test_a_place_for_a_textfile_that_is_none_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "taken.prom").mkdir()
    with pytest.raises(ConfigError) as caught:
        require_textfile(tmp_path / name)
    assert reason in str(caught.value)
