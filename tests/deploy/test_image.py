"""The image without an engine: the Dockerfile's own steps, the container that they make, and that all it names exists."""

import json
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator

import pytest

import monitor
from deploy.shipped import DEPLOY, text_of, yaml_of
from monitor.settings.addresses import DEFAULT_LISTEN
from monitor.settings.configuration import Settings
from servers import image
from servers.image import instructions

ROOT = DEPLOY.parent
COMPOSE = yaml_of("compose.yaml")
STEPS = instructions(DEPLOY / "Dockerfile")
"""The Dockerfile's instructions, each with its arguments on one line."""
CONFIG = """
database: sqlite:////var/lib/rankwatch/rankwatch.db
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
    yield image.build(DEPLOY / "Dockerfile", ROOT, home)
    shutil.rmtree(home)  # half a gigabyte


@pytest.mark.integration
def test_the_steps_of_the_dockerfile_make_an_image_of_what_runs_and_no_more(stage):
    assert (stage.root / "opt/rankwatch/bin/rankwatch").exists()
    assert stage.labels["org.opencontainers.image.version"] == monitor.__version__
    assert re.search(
        "^rankwatch:.:10001:10001:", (stage.root / "etc/passwd").read_text(), re.MULTILINE
    )
    (folder,) = (stage.root / "opt/rankwatch/lib").glob("python3*/site-packages")
    packages = {path.name for path in folder.iterdir()}
    assert {"monitor", "psycopg", "numpy"} <= packages
    assert (folder / "monitor/storage/migrations/env.py").exists()
    assert (folder / "monitor/settings/rankwatch.yaml").exists()
    assert not {"pip", "setuptools", "pytest", "numba"} & packages
    assert not (stage.root / "src").exists()


@pytest.mark.integration
def test_the_container_is_healthy_as_a_user_without_rights_on_a_read_only_root_and_ends_when_told(
    stage, tmp_path
):
    (config := tmp_path / "etc").mkdir()
    (config / "rankwatch.yaml").write_text(CONFIG)
    (config / "lists.jsonl").write_text('{"user": "ann", "items": ["a", "b"]}\n')
    for folder in (tmp_path, config):
        folder.chmod(0o755)
    seen = image.run(stage, config, tmp_path / "state")
    assert seen["health_before"] != 0
    assert seen["health"] == 0, seen["log"]
    assert (seen["owner"], set(seen["may"])) == (10001, {"0"})
    assert seen["refused"] == ["/opt/rankwatch/x", "/etc/x", "/etc/rankwatch/x", "/usr/x"]
    assert (tmp_path / "state" / "rankwatch.db").exists()
    assert seen["exit_code"] == 0, seen["log"]


def test_everything_copied_exists_and_is_let_through_by_the_ignore_file():
    ignore = text_of("Dockerfile.dockerignore").splitlines()
    admitted = {line[1:] for line in ignore if line.startswith("!")}
    copied = [
        words.split()[:-1]
        for word, words in STEPS
        if word == "COPY" and not words.startswith("--from")
    ]
    assert {source for sources in copied for source in sources} == admitted
    assert all((ROOT / source).exists() for source in admitted)
    assert ignore[0] == "*"


def test_images_are_pinned_and_nothing_of_the_distribution_is_added():
    assert not [arguments for word, arguments in STEPS if word == "RUN" and "apt-get" in arguments]
    assert re.fullmatch(r"PYTHON=python:3\.\d+\.\d+-slim-\w+", STEPS[0][1])
    tags = {
        name: service["image"].rpartition(":")[2] for name, service in COMPOSE["services"].items()
    }
    assert all(re.match(r"v?\d+\.\d+", tag) for tag in tags.values()), tags
    assert COMPOSE["services"]["rankwatch"]["image"] == f"rankwatch:{monitor.__version__}"


def test_the_health_check_asks_where_the_daemon_listens_and_loads_no_settings_for_it():
    listens = Settings.model_fields["listen"].default
    assert json.loads(dict(STEPS)["HEALTHCHECK"].split("CMD", 1)[1]) == [
        "rankwatch",
        "healthcheck",
        listens,
    ]
    assert listens == DEFAULT_LISTEN
    assert ("EXPOSE", listens.rpartition(":")[2]) in STEPS


def test_every_mounted_file_exists_and_every_volume_and_secret_is_declared():
    for name, service in COMPOSE["services"].items():
        for mount in service.get("volumes", []):
            source, target, *mode = mount.split(":")
            if source.startswith("."):
                assert (DEPLOY / source).exists(), (name, source)
                assert mode == ["ro"], (name, target)
            else:
                assert source in COMPOSE["volumes"], (name, source)
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"]), name
        assert set(service.get("depends_on", {})) <= set(COMPOSE["services"]), name
        settings = service.get("environment", {})
        assert not [key for key in settings if "PASSWORD" in key and not key.endswith("_FILE")], (
            name
        )


def test_ports_are_published_on_loopback_only():
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)


def test_every_address_named_in_a_configuration_is_a_service():
    files = ["prometheus/prometheus.yml", "compose/rankwatch.yaml"]
    files += [
        f"grafana/provisioning/datasources/{name}.yml" for name in ("prometheus", "postgresql")
    ]
    text = "".join(text_of(file) for file in files)
    named = set(re.findall(r"\b([a-z]+):\d{4,5}\b", text)) - {"localhost"}
    assert named == {"rankwatch", "alertmanager", "prometheus", "postgres", "recommenders"}
    assert named <= set(COMPOSE["services"])


def test_grafana_finds_the_dashboard_where_it_is_mounted():
    grafana = COMPOSE["services"]["grafana"]
    path = yaml_of("grafana/provisioning/dashboards/rankwatch.yml")["providers"][0]["options"][
        "path"
    ]
    (source,) = (mount.split(":")[0] for mount in grafana["volumes"] if mount.split(":")[1] == path)
    assert (DEPLOY / source / "rankwatch-overview.json").exists()
    assert (
        grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        == f"{path}/rankwatch-overview.json"
    )


def test_the_secrets_are_made_once_and_fit_together(tmp_path):
    script = shutil.copy(DEPLOY / "make-secrets", tmp_path / "make-secrets")
    made = []
    for _ in range(2):
        subprocess.run([script], check=True)
        made.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    secrets = made[0]
    assert made[1] == secrets
    assert secrets.keys() == COMPOSE["secrets"].keys()
    assert re.fullmatch(r"[0-9a-f]{48}", secrets["postgres_password"])
    assert secrets["postgres_password"] != secrets["grafana_admin_password"]
    assert (
        secrets["database_url"]
        == f"postgresql+psycopg://rankwatch:{secrets['postgres_password']}@postgres/rankwatch"
    )
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
