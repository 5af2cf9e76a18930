"""The image without an engine: the Dockerfile's own steps, the container that they make, and that all it names exists."""

import json
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import monitor
from monitor.settings.addresses import DEFAULT_LISTEN
from monitor.settings.configuration import Settings
from servers import image
from servers.image import instructions

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.early(150)
CONFIG = """
comparisons:
  - name: home-feed
    every: 1d
    k: 2
    baseline: {file: {path: lists.jsonl, user: user, items: items}}
    candidate: {file: {path: lists.jsonl, user: user, items: items}}
    users: {all: true}
    rules: default
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


def test_the_container_is_healthy_as_a_user_without_rights_on_a_read_only_root_and_ends_when_told(
    seen: dict[str, Any],
) -> None:
    assert seen["health_before"] != 0
    assert seen["health"] == 0, seen["log"]
    assert (seen["owner"], set(seen["may"])) == (10001, {"0"})
    assert seen["refused"] == ["/opt/rankwatch/x", "/etc/x", "/etc/rankwatch/x", "/usr/x"]
    assert "rankwatch.db" in seen["state"]
    assert seen["exit_code"] == 0, seen["log"]


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each with its arguments on one line."""
    return instructions(ROOT / "deploy" / "Dockerfile")


def _copied(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Source and destination of everything copied from the repository."""
    pairs = []
    for word, arguments in steps:
        if word == "COPY" and not arguments.startswith("--from"):
            *sources, destination = arguments.split()
            pairs += [(source, destination) for source in sources]
    return pairs


def test_everything_copied_exists_and_is_let_through_by_the_ignore_file(steps: list[tuple[str, str]]) -> None:
    ignore = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    admitted = {line[1:] for line in ignore if line.startswith("!")}

    assert {source for source, _ in _copied(steps)} == admitted
    assert all((ROOT / source).exists() for source in admitted)
    assert ignore[0] == "*"


def test_the_base_image_is_pinned_and_nothing_of_the_distribution_is_added(steps: list[tuple[str, str]]) -> None:
    assert not [arguments for word, arguments in steps if word == "RUN" and "apt-get" in arguments]
    assert re.fullmatch(r"PYTHON=python:3\.\d+\.\d+-slim-\w+", steps[0][1])


def test_the_health_check_asks_where_the_daemon_listens_and_loads_no_settings_for_it(steps: list[tuple[str, str]]) -> None:
    command = json.loads(dict(steps)["HEALTHCHECK"].split("CMD", 1)[1])
    listens = Settings.model_fields["listen"].default

    assert command == ["rankwatch", "healthcheck", listens]
    assert listens == DEFAULT_LISTEN
    assert ("EXPOSE", listens.rpartition(":")[2]) in steps


def test_every_image_is_pinned_to_a_version(compose: Any) -> None:
    tags = {name: service["image"].rpartition(":")[2] for name, service in compose["services"].items()}

    assert all(re.match(r"v?\d+\.\d+", tag) for tag in tags.values()), tags
    assert compose["services"]["rankwatch"]["image"] == f"rankwatch:{monitor.__version__}"


def test_every_mounted_file_exists_and_every_volume_and_secret_is_declared(compose: Any) -> None:
    for name, service in compose["services"].items():
        for mount in service.get("volumes", []):
            source, target, *mode = mount.split(":")
            if source.startswith("."):
                assert (ROOT / "deploy" / source).exists(), (name, source)
                assert mode == ["ro"], (name, target)
            else:
                assert source in compose["volumes"], (name, source)
        assert set(service.get("secrets", [])) <= set(compose["secrets"]), name
        assert set(service.get("depends_on", {})) <= set(compose["services"]), name


def test_ports_are_published_on_loopback_only(compose: Any) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]

    assert len(ports) == 4
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)


def test_no_secret_stands_in_the_compose_file(compose: Any) -> None:
    settings = {key: value for service in compose["services"].values() for key, value in service.get("environment", {}).items()}

    assert [key for key in settings if "PASSWORD" in key and not key.endswith("_FILE")] == []


def test_every_address_named_in_a_configuration_is_a_service(compose: Any, deploy: Path) -> None:
    prometheus = yaml.safe_load((deploy / "prometheus" / "prometheus.yml").read_text())
    provisioned = deploy / "grafana" / "provisioning" / "datasources"
    files = (provisioned / "prometheus.yml", provisioned / "postgresql.yml")
    named = {
        *prometheus["scrape_configs"][0]["static_configs"][0]["targets"],
        *prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"],
        *(yaml.safe_load(file.read_text())["datasources"][0]["url"].removeprefix("http://") for file in files),
        *re.findall(r"http://([\w-]+:\d+)", (deploy / "compose" / "rankwatch.yaml").read_text().partition("comparisons:")[2]),
    }

    assert {name.split(":")[0] for name in named} == {"rankwatch", "alertmanager", "prometheus", "postgres", "recommenders"}
    assert {name.split(":")[0] for name in named} <= set(compose["services"])


def test_grafana_finds_the_dashboard_where_it_is_mounted(compose: Any, deploy: Path) -> None:
    path = yaml.safe_load((deploy / "grafana" / "provisioning" / "dashboards" / "rankwatch.yml").read_text())["providers"][0][
        "options"
    ]["path"]
    mounts = dict(mount.split(":")[:2][::-1] for mount in compose["services"]["grafana"]["volumes"])

    assert (deploy / mounts[path] / "rankwatch-overview.json").exists()
    assert (
        compose["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        == f"{path}/rankwatch-overview.json"
    )


def test_the_secrets_are_made_once_and_fit_together(deploy: Path, tmp_path: Path, compose: Any) -> None:
    script = shutil.copy(deploy / "make-secrets", tmp_path / "make-secrets")
    made = []
    for _ in range(2):
        subprocess.run([script], check=True)
        made.append({path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "secrets").iterdir()})

    assert made[0] == made[1]
    assert set(made[0]) == set(compose["secrets"])
    assert re.fullmatch(r"[0-9a-f]{48}", made[0]["postgres_password"])
    assert made[0]["postgres_password"] != made[0]["grafana_admin_password"]
    assert made[0]["database_url"] == f"postgresql+psycopg://rankwatch:{made[0]['postgres_password']}@postgres/rankwatch"
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
