"""What compose.yaml starts, started here without an engine: its commands and its configuration, with other addresses."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deploy.shipped import DEPLOY, moved, yaml_of
from forking import ended, rankwatch, running
from servers.daemon import serving, wait_for
from servers.postgres import PostgresServer

pytestmark = [pytest.mark.early, pytest.mark.integration]


SERVICES = yaml_of("compose.yaml")["services"]


@pytest.fixture(scope="module")
def recommenders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address and users file of the recommenders, started by their service's command."""
    home = tmp_path_factory.mktemp("shop")
    log = home.with_name("recommenders.log")
    command = moved(
        " ".join(SERVICES["recommenders"]["command"]),
        {"0.0.0.0:8000": "127.0.0.1:0", "/var/lib/rankwatch": str(home)},
    )
    with running(command.split(), cwd=home, out=log) as process:
        yield wait_for(lambda: _address(log), "the recommenders"), home
        process.terminate()
        assert ended(process, 60) == 0, log.read_text()


def _address(log: Path) -> str:
    found = re.search(r"serve (http://\S+)/baseline", log.read_text() if log.exists() else "")
    return found[1] if found else ""


@pytest.fixture
def config(
    recommenders: tuple[str, Path], postgres_server: PostgresServer, tmp_path: Path
) -> Iterator[Path]:
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
    config.write_text(moved(config.read_text(), places))
    with postgres_server.database() as database:
        (tmp_path / "database_url").write_text(database)
        yield config


def _complete(page: str) -> str:
    """The page, once the newest run ended ok and had one before it to be held against.

    Else nothing.
    """
    return page if "rankwatch_similarity_mean{" in page and 'metric="self_churn"' in page else ""


def test_the_daemon_of_compose_watches_the_recommenders_of_compose(config):
    migrated = rankwatch(
        *SERVICES["migrate"]["command"], "--config", str(config), cwd=config.parent
    )
    assert migrated.returncode == 0, migrated.stderr

    with serving(config) as daemon:
        page = wait_for(
            lambda: _complete(daemon.metrics()), "a run with normal values and everything else"
        )
        assert daemon.status_of("/-/ready") == 200
    samples = [
        sample for family in text_string_to_metric_families(page) for sample in family.samples
    ]

    def shown(name: str, label: str) -> set[str]:
        return {sample.labels[label] for sample in samples if sample.name == f"rankwatch_{name}"}

    assert {"all", "country=DE", "activity=high"} <= shown("similarity_mean", "segment")
    metrics = shown("similarity_mean", "metric")
    assert {"extended_tau", "rbo(p=0.9)", "overlap"} <= metrics
    assert shown("noise_floor_mean", "metric") == metrics
    assert {"novelty", "self_churn", "exposure_gini"} <= shown("arm_metric", "metric")
    assert {"SimilarityLow", "ManyUsersApart"} < shown("alert_state", "alert")
