"""What compose.yaml starts, started here without an engine: its commands and its configuration, with other addresses."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import make_url

from deploy.shipped import DEPLOY, yaml_of
from forking import ended, rankwatch, running
from monitor.storage import open_store
from servers import require
from servers.daemon import serving, wait_for
from servers.postgres import PostgresServer

pytestmark = [pytest.mark.early, pytest.mark.integration]


def _moved(text: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        assert name in text
        text = text.replace(name, place)
    return text


SERVICES = yaml_of("compose.yaml")["services"]


@pytest.fixture(scope="module")
def recommenders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address and users file of the recommenders, started by their service's command."""
    home = tmp_path_factory.mktemp("shop")
    log = home.with_name("recommenders.log")
    command = _moved(
        " ".join(SERVICES["recommenders"]["command"]), {"0.0.0.0:8000": "127.0.0.1:0", "/var/lib/rankwatch": str(home)}
    )
    with running(command.split(), cwd=home, out=log) as process:
        yield wait_for(lambda: _address(log), "the recommenders"), home
        process.terminate()
        assert ended(process, 60) == 0, log.read_text()


def _address(log: Path) -> str:
    found = re.search(r"serve (http://\S+)/baseline", log.read_text() if log.exists() else "")
    return found[1] if found else ""


@pytest.fixture
def config(recommenders: tuple[str, Path], postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Path]:
    url, shop = recommenders
    folder = Path(shutil.copytree(DEPLOY / "compose", tmp_path / "etc"))
    config = folder / "rankwatch.yaml"
    places = {
        "/run/secrets/database_url": str(tmp_path / "database_url"),
        "0.0.0.0:29108": "127.0.0.1:0",
        "http://recommenders:8000": url,
        "/shop/users.csv": str(shop / "users.csv"),
        "http://alertmanager:9093": "http://127.0.0.1:9",  # nothing is to be told
        "every: 1m": "every: 3s",
    }
    config.write_text(_moved(config.read_text(), places))
    with postgres_server.database() as database:
        (tmp_path / "database_url").write_text(database)
        yield config


def _complete(page: str) -> str:
    """The page, once the newest run ended ok and had one before it to be held against; else nothing."""
    return page if "rankwatch_similarity_mean{" in page and 'metric="self_churn"' in page else ""


def test_the_daemon_of_compose_watches_the_recommenders_of_compose(config: Path) -> None:
    migrated = rankwatch(*SERVICES["migrate"]["command"], "--config", str(config), cwd=config.parent)
    assert migrated.returncode == 0, migrated.stderr

    with serving(config) as daemon:
        page = wait_for(lambda: _complete(daemon.metrics()), "a run with normal values and everything else")
        assert daemon.status_of("/-/ready") == 200
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]

    def shown(name: str, label: str) -> set[str]:
        return {sample.labels[label] for sample in samples if sample.name == f"rankwatch_{name}"}

    assert {"all", "country=DE", "activity=high"} <= shown("similarity_mean", "segment")
    metrics = shown("similarity_mean", "metric")
    assert {"extended_tau", "rbo(p=0.9)", "overlap"} <= metrics
    assert shown("noise_floor_mean", "metric") == metrics
    assert {"novelty", "self_churn", "exposure_gini"} <= shown("arm_metric", "metric")
    assert {"SimilarityLow", "ManyUsersApart"} < shown("alert_state", "alert")


def test_the_role_of_grafana_is_made_by_the_service_that_is_there_for_it(postgres_url: str, tmp_path: Path) -> None:
    open_store(postgres_url, create=True).close()
    url = make_url(postgres_url)
    secrets = {"postgres_password": str(url.password), "grafana_database_password": "only-reads"}
    for name, secret in secrets.items():
        (tmp_path / name).write_text(secret)
    shell, options = SERVICES["reader"]["entrypoint"]
    (script,) = SERVICES["reader"]["command"]
    places = {
        "$$": "$",
        "/run/secrets": str(tmp_path),
        "--host=postgres": f"--host={url.host} --port={url.port}",
        "--username=rankwatch": f"--username={url.username}",
        "--dbname=rankwatch": f"--dbname={url.database}",
        "--file=/readonly.sql": f"--file={DEPLOY / 'grafana' / 'readonly.sql'}",
    }
    require("psql")
    mine = url.set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        for _ in range(2):  # as at each `up`
            subprocess.run([shell, options, _moved(script, places)], check=True, capture_output=True)
        with psycopg.connect(mine, user="rankwatch_reader", password=secrets["grafana_database_password"]) as reader:
            assert reader.execute("SELECT count(*) FROM runs").fetchone() == (0,)
            with pytest.raises(psycopg.errors.Error, match=r"read-only|permission denied"):
                reader.execute("DELETE FROM runs")
    finally:
        with psycopg.connect(mine, autocommit=True) as owner:
            owner.execute("DROP OWNED BY rankwatch_reader")
            owner.execute("DROP ROLE rankwatch_reader")
