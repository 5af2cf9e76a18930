"""Every query of the dashboards to the database, on a PostgreSQL with two weeks of runs, as the role that Grafana has."""

import subprocess
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url
from typer.testing import CliRunner

import preview
from deploy import dashboards
from deploy.fortnight import FAULTY, PAGE, configuration, told
from deploy.shipped import DEPLOY, moved, yaml_of
from monitor.cli.main import app
from servers import require

pytestmark = pytest.mark.integration
READER, SECRET = "rankwatch_reader", "reader's \\secret"
BOARD = dashboards.read("rankwatch-comparison")
QUERIES = dict(dashboards.sql(BOARD))


@pytest.fixture(scope="module")
def fortnight(postgres_server, tmp_path_factory):
    with (
        postgres_server.database() as url,
        told(tmp_path_factory.mktemp("fortnight"), url) as fortnight,
    ):
        yield fortnight


def dsn_of(fortnight):
    return fortnight.database_url.replace("+psycopg", "")


@pytest.fixture(scope="module")
def owner(fortnight):
    with psycopg.connect(dsn_of(fortnight), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def reader(fortnight, owner, tmp_path_factory):
    """Connected as the role that the service for it in compose.yaml makes."""
    url, secrets = make_url(fortnight.database_url), tmp_path_factory.mktemp("secrets")
    service = yaml_of("compose.yaml")["services"]["reader"]
    (secrets / "postgres_password").write_text(str(url.password))
    (secrets / "grafana_database_password").write_text(SECRET)
    places = {
        "$$": "$",
        "/run/secrets": str(secrets),
        "--host=postgres": f"--host={url.host} --port={url.port}",
        "--username=rankwatch": f"--username={url.username}",
        "--dbname=rankwatch": f"--dbname={url.database}",
        "--file=/readonly.sql": f"--file={DEPLOY}/grafana/readonly.sql",
    }
    require("psql")
    for _ in range(2):  # as at each `up`
        command = [*service["entrypoint"], moved(service["command"][0], places)]
        subprocess.run(command, check=True, capture_output=True)
    dsn = dsn_of(fortnight)
    with psycopg.connect(dsn, user=READER, password=SECRET, autocommit=True) as connection:
        yield connection
    for done in ("DROP OWNED BY {}", "DROP ROLE {}"):
        owner.execute(sql.SQL(done).format(sql.Identifier(READER)))


def rows(reader, title, page=PAGE):
    found = reader.execute(page.sql(QUERIES[title]))
    assert found.description
    return [
        dict(zip([column.name for column in found.description], row, strict=True)) for row in found
    ]


@pytest.fixture(scope="module")
def page(reader):
    """With somebody chosen who was compared."""
    return replace(
        PAGE, values={**PAGE.values, "user": str(rows(reader, "Worst users")[0]["User"])}
    )


def test_every_query_gives_data_in_every_column_that_an_override_names(reader, page):
    overrides = {
        panel["title"]: panel["fieldConfig"]["overrides"] for panel in dashboards.panels(BOARD)
    }
    for title in QUERIES:
        matchers = [each["matcher"] for each in overrides.get(title, ())]
        named = {matcher["options"] for matcher in matchers if matcher["id"] == "byName"}
        assert named <= rows(reader, title, page)[0].keys(), title


def test_each_query_returns_what_its_title_says(reader, page):
    runs = rows(reader, "Runs")
    assert [row["Slot"].day for row in runs] == [*range(14, 0, -1)]
    assert all(0 < row["Paired"] <= row["Asked"] and row["Status"] == "ok" for row in runs)
    worst = [row["Similarity"] for row in rows(reader, "Worst users")]
    assert worst[0] == min(worst)
    for row in rows(reader, "Movers"):
        assert (row["Exposure now"] > row["Exposure before"]) is (row["Change"] == "gained")
    changes = [row for row in rows(reader, "Alert changes") if row["State"].endswith("firing")]
    assert {row["Time"].day for row in changes} == {8}
    times = [row["time"] for row in rows(reader, "One user over time", page)]
    assert times == sorted(times) != []


def test_the_chosen_time_bounds_every_query_and_a_hostile_name_finds_nothing(reader, page):
    names = ("it's", "'; DROP TABLE runs; --", "back\\slash")
    hostile = ({**PAGE.values, "comparison": name, "user": name, "metric": name} for name in names)
    before = replace(page, since="2023-01-01T00:00:00Z", until="2023-12-31T00:00:00Z")
    pages = [before, *(replace(page, values=values) for values in hostile)]
    for each in pages:
        assert not [title for title in QUERIES if rows(reader, title, each)]


def test_the_role_can_change_nothing(reader):
    for statement in [
        "DELETE FROM runs",
        "CREATE TABLE mine (a int)",
        "UPDATE alert_states SET state = 'quiet'",
    ]:
        with pytest.raises(psycopg.Error, match=r"read-only|permission denied"):
            reader.execute(statement)
        reader.execute("SET default_transaction_read_only = off")
        try:
            with pytest.raises(psycopg.Error, match="permission denied"):
                reader.execute(statement)
        finally:
            reader.execute("RESET default_transaction_read_only")


@pytest.mark.usefixtures("reader")
def test_commands_that_only_show_need_no_more_than_the_role(fortnight, owner, tmp_path):
    owner.execute(
        "DELETE FROM leases WHERE name = 'installation'"
    )  # as before the first run of this version
    url = make_url(fortnight.database_url).set(username=READER, password=SECRET)
    config = str(configuration(tmp_path, url.render_as_string(hide_password=False)))
    for command in f"""
        runs|show {FAULTY}|alerts ls|silence ls|notify ls|db current|db check|db size
        |backtest --rules {config}|suggest {FAULTY}|plan {FAULTY} --drop 0.1|gate {FAULTY} --margin 0.9
    """.split("|"):
        done = CliRunner().invoke(app, [*command.split(), "--config", config])
        assert isinstance(done.exception, SystemExit | None), (command, done.exception)
        assert done.exit_code == 0, (command, done.output)


def test_the_role_sees_tables_that_come_later(reader, owner):
    owner.execute("CREATE TABLE of_a_later_version (a int)")
    try:
        assert not reader.execute("SELECT * FROM of_a_later_version").fetchall()
    finally:
        owner.execute("DROP TABLE of_a_later_version")


def test_the_preview_shows_what_the_panels_show(fortnight):
    assert preview.TARGET.read_text() == preview.svg(fortnight), "draw it anew: make preview"
