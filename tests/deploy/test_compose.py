"""What compose.yaml starts, started here without an engine: recommenders and a run over them, with other addresses."""

import re

import pytest

from commands import rankwatch
from deploy.shipped import moved, parse_command, text_of, yaml_of
from forking import ended, running
from servers.daemon import wait_for
from storage.worked import store_over

pytestmark = [pytest.mark.early, pytest.mark.integration]


SERVICES = yaml_of("compose.yaml")["services"]


def _address(log):
    found = re.search(r"(http://\S+)/baseline", log.read_text() if log.exists() else "")
    return found[1] if found else ""


def test_the_configuration_of_compose_finds_the_lists_of_the_recommenders_of_compose(tmp_path):
    log, shop, config = tmp_path / "log", tmp_path / "shop", tmp_path / "rankwatch.yaml"
    shop.mkdir()
    places = {"0.0.0.0:8000": "127.0.0.1:0", "/var/lib/rankwatch": str(shop)}
    command = moved(" ".join(SERVICES["recommenders"]["command"]), places)
    with running(command.split(), cwd=shop, out=log) as process:
        url = wait_for(lambda: _address(log), "the recommenders")
        places = {
            "/run/secrets/database_url": f"{tmp_path}/database_url",
            "http://recommenders:8000": url,
            "/shop/users.csv": f"{shop}/users.csv",
        }
        config.write_text(moved(text_of("compose/rankwatch.yaml"), places))
        (tmp_path / "database_url").write_text(f"sqlite:///{tmp_path}/rankwatch.db")
        for command in ("db upgrade", "check", "run-once"):
            done = rankwatch(f"{command} --config {config}")
            assert done.returncode == 0, done.stdout + done.stderr
        process.terminate()
        assert ended(process) == 0, log.read_text()
    with store_over(f"{tmp_path}/rankwatch.db") as store:
        (run,) = store.history.runs(comparison="home-feed", limit=9)
    assert (run.asked, run.paired) == (500, 500)


def test_what_compose_starts_of_rankwatch_is_a_command():
    for name in ("migrate", "recommenders"):
        assert parse_command(SERVICES[name]["command"])
