"""The image without an engine: the Dockerfile's own steps in a clean directory, and the container that they make."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import monitor
from servers import image

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.early
CONFIG = """
comparisons:
  - name: home-feed
    every: 1d
    k: 2
    baseline: {file: {path: lists.jsonl, user: user, items: items}}
    candidate: {file: {path: lists.jsonl, user: user, items: items}}
    users: {all: true}
    default_rules: true
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[image.Stage]:
    home = tmp_path_factory.mktemp("image")
    yield image.build(ROOT / "deploy" / "Dockerfile", ROOT, home)
    shutil.rmtree(home)  # half a gigabyte


@pytest.fixture(scope="module")
def seen(stage: image.Stage, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("container")
    config = home / "etc"
    config.mkdir()
    (config / "rankwatch.yaml").write_text("database: sqlite:////var/lib/rankwatch/rankwatch.db\n" + CONFIG, encoding="utf-8")
    (config / "lists.jsonl").write_text(json.dumps({"user": "ann", "items": ["a", "b"]}) + "\n", encoding="utf-8")
    home.chmod(0o755)
    config.chmod(0o755)
    return image.run(stage, config, home / "state") | {"state": sorted(path.name for path in (home / "state").iterdir())}


def test_the_steps_of_the_dockerfile_succeed_in_a_clean_directory(stage: image.Stage) -> None:
    assert (stage.root / "opt/rankwatch/bin/rankwatch").exists()
    assert stage.labels["org.opencontainers.image.version"] == monitor.__version__
    assert re.search("^rankwatch:.:10001:10001:", (stage.root / "etc/passwd").read_text(encoding="utf-8"), re.MULTILINE)


def test_only_what_runs_is_in_the_image(stage: image.Stage) -> None:
    (folder,) = (stage.root / "opt/rankwatch/lib").glob("python3*/site-packages")
    packages = {path.name for path in folder.iterdir()}

    assert {"monitor", "psycopg", "numpy"} <= packages
    assert (folder / "monitor/storage/migrations/env.py").exists()
    assert (folder / "monitor/settings/rankwatch.yaml").exists()
    assert not {"pip", "setuptools", "pytest", "numba"} & packages
    assert not (stage.root / "src").exists()


def test_the_container_is_healthy_as_a_user_without_rights_on_a_root_that_cannot_be_written(seen: dict[str, Any]) -> None:
    assert seen["health_before"] != 0
    assert seen["health"] == 0, seen["log"]
    assert (seen["owner"], set(seen["may"])) == (10001, {"0"})
    assert seen["refused"] == ["/opt/rankwatch/x", "/etc/x", "/etc/rankwatch/x", "/usr/x"]
    assert "rankwatch.db" in seen["state"]


def test_the_container_ends_cleanly_when_it_is_told(seen: dict[str, Any]) -> None:
    assert seen["exit_code"] == 0, seen["log"]
