"""The image without an engine: what the Dockerfile and compose.yaml name exists, and the wheel has all that runs."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile

import pytest

import monitor
from deploy.shipped import DEPLOY, text_of, yaml_of
from monitor.settings.addresses import DEFAULT_LISTEN
from monitor.settings.configuration import Settings

ROOT = DEPLOY.parent
COMPOSE = yaml_of("compose.yaml")
SERVICES = COMPOSE["services"]
STEPS = re.findall(r"(?m)^ *([A-Z]+) +(.+)$", text_of("Dockerfile").replace("\\\n", " "))
"""The Dockerfile's instructions, each with its arguments on one line."""


@pytest.mark.integration
def test_the_wheel_has_all_that_the_program_needs_to_run(tmp_path):
    build = ["-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([sys.executable, *build, str(tmp_path)], cwd=ROOT, check=True)
    (wheel,) = tmp_path.iterdir()
    program = tmp_path / "program"
    zipfile.ZipFile(wheel).extractall(program)
    needed = {
        path.relative_to(ROOT)
        for path in (ROOT / "monitor").rglob("*")
        if path.parent.name in ("templates", "static")
    }
    packed = {path.relative_to(program) for path in program.rglob("*")}
    assert needed
    assert needed <= packed
    assert not any(path.parts[0] == "tests" for path in packed)
    for command in ("init", "db upgrade"):
        subprocess.run(
            [sys.executable, "-m", "monitor", *command.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(program)},
            check=True,
        )


def test_the_container_runs_as_a_numbered_user_who_owns_the_volume_alone():
    steps = dict(STEPS)
    assert steps["USER"] == "10001:10001"
    owned = f"--owner rankwatch --group rankwatch --mode 0700 {steps['VOLUME']}"
    assert any("--uid 10001" in text and text.endswith(owned) for _, text in STEPS)
    assert [json.loads(steps[word]) for word in ("ENTRYPOINT", "CMD")] == [["rankwatch"], ["serve"]]


def test_everything_copied_exists_and_is_let_through_by_the_ignore_file():
    ignore = text_of("Dockerfile.dockerignore").splitlines()
    admitted = {line[1:] for line in ignore if line.startswith("!")}
    copied = set()
    for word, words in STEPS:
        if word == "COPY" and not words.startswith("--from"):
            copied.update(words.split()[:-1])
    assert copied == admitted
    assert all((ROOT / source).exists() for source in admitted)
    assert ignore[0] == "*"


def test_images_are_pinned_and_nothing_of_the_distribution_is_added():
    assert not [arguments for word, arguments in STEPS if word == "RUN" and "apt-get" in arguments]
    assert re.fullmatch(r"PYTHON=python:3\.\d+\.\d+-slim-\w+", STEPS[0][1])
    assert ("ARG", f"VERSION={monitor.__version__}") in STEPS
    for service in SERVICES.values():
        assert re.search(r":v?\d+\.\d+[^:]*$", service["image"])
    assert SERVICES["rankwatch"]["image"] == f"rankwatch:{monitor.__version__}"


def test_the_health_check_asks_where_the_daemon_listens_and_loads_no_settings_for_it():
    listens = Settings.model_fields["listen"].default
    check = json.loads(dict(STEPS)["HEALTHCHECK"].split("CMD", 1)[1])
    assert check == ["rankwatch", "healthcheck", listens]
    assert listens == DEFAULT_LISTEN
    assert ("EXPOSE", listens.rpartition(":")[2]) in STEPS


def test_every_mounted_file_exists_and_every_volume_and_secret_is_declared():
    for name, service in SERVICES.items():
        for mount in service.get("volumes", []):
            source, target, *mode = mount.split(":")
            if source.startswith("."):
                assert (DEPLOY / source).exists(), (name, source)
                assert mode == ["ro"], (name, target)
            else:
                assert source in COMPOSE["volumes"], (name, source)
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"]), name
        assert set(service.get("depends_on", {})) <= set(SERVICES), name
        for key in service.get("environment", {}):
            assert "PASSWORD" not in key or key.endswith("_FILE"), (name, key)


def test_ports_are_published_on_loopback_only():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)


def test_every_address_named_in_a_configuration_is_a_service():
    sources = "grafana/provisioning/datasources"
    files = ("prometheus/prometheus.yml", "compose/rankwatch.yaml", f"{sources}/prometheus.yml")
    text = "".join(map(text_of, (*files, f"{sources}/postgresql.yml")))
    named = set(re.findall(r"\b([a-z]+):\d{4,5}\b", text)) - {"localhost"}
    assert named == {"rankwatch", "alertmanager", "prometheus", "postgres", "recommenders"}
    assert named <= set(SERVICES)


def test_grafana_finds_the_dashboard_where_it_is_mounted():
    grafana = SERVICES["grafana"]
    (provider,) = yaml_of("grafana/provisioning/dashboards/rankwatch.yml")["providers"]
    path, home = provider["options"]["path"], "rankwatch-overview.json"
    (source,) = (mount.split(":")[0] for mount in grafana["volumes"] if mount.split(":")[1] == path)
    assert (DEPLOY / source / home).exists()
    environment = grafana["environment"]
    assert environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == f"{path}/{home}"


def test_the_secrets_are_made_once_and_fit_together(tmp_path):
    script = shutil.copy(DEPLOY / "make-secrets", tmp_path / "make-secrets")
    made = []
    for _ in range(2):
        subprocess.run([script], check=True)
        made.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    secrets, again = made
    assert secrets == again
    assert secrets.keys() == COMPOSE["secrets"].keys()
    password = secrets["postgres_password"]
    assert re.fullmatch(r"[0-9a-f]{48}", password)
    assert password != secrets["grafana_admin_password"]
    url = f"postgresql+psycopg://rankwatch:{password}@postgres/rankwatch"
    assert secrets["database_url"] == url
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
