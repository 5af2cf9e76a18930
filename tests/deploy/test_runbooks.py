"""A page an alert, an alert a page; what a page tells to type can be typed."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import published
from deploy.shipped import RUNBOOKS, alerts, blocks_in, recorded_in, rules, runbooks, series_in
from deploy.test_rules import _run
from monitor.cli.main import app
from monitor.service.daemon.outage import ALERT as DATABASE_AWAY
from monitor.settings.comparison_options import CONDITION_ALERTS as OF_CONDITIONS
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.default_rules import default_rules
from servers import require

PARTS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
COMMAND_LINE: Any = get_command(app)
INDEX = (RUNBOOKS / "README.md").read_text(encoding="utf-8")


def _own_alerts() -> set[str]:
    options = ComparisonOptions.model_validate(
        {
            "name": "c",
            "every": "1h",
            "k": 10,
            "baseline": {"file": {"path": "a.csv", "user": "u", "items": "i"}},
            "candidate": {"file": {"path": "b.csv", "user": "u", "items": "i"}},
            "users": {"all": True},
            "metrics": ["rbo", "overlap", "jaccard"],
            "noise_floor": {"serve": True},
            "default_rules": True,
        }
    )
    return {rule.alert for rule in default_rules(options)} | set(OF_CONDITIONS.values()) | {DATABASE_AWAY}


def _commands(page: str) -> list[list[str]]:
    spoken = [*blocks_in(page, "sh"), *re.findall(r"`(rankwatch [^`]+)`", page)]
    return [shlex.split(line)[1:] for line in spoken if line.startswith("rankwatch ")]


def _parse(arguments: list[str]) -> None:
    """Fail as the command line would, without doing anything."""
    command = COMMAND_LINE
    while arguments and arguments[0] in getattr(command, "commands", {}):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    if arguments == ["--help"]:
        return
    if hasattr(command, "commands"):
        assert not arguments, f"no command {arguments}"
    else:
        command.make_context("rankwatch", list(arguments))


def test_every_alert_has_its_page_and_every_page_an_alert() -> None:
    of_rankwatch = set(re.findall(r"^\| `.*\| \[(\w+)\]", INDEX, re.MULTILINE))

    assert runbooks().keys() == {alert.name for alert in alerts()} | of_rankwatch


def test_the_index_links_every_page_and_says_what_the_rules_say() -> None:
    for alert in alerts():
        assert re.search(
            rf"^\| \[{alert.name}\]\({alert.name}\.md\) .*\| {re.escape(alert.annotations['summary'])} \|$", INDEX, re.MULTILINE
        )
    assert set(re.findall(r"\]\((\w+)\.md\)", INDEX)) == runbooks().keys()


def test_the_index_finds_a_page_for_every_alert_that_rankwatch_has_by_itself() -> None:
    rows = re.findall(r"^\| (`.*`) \| \[", INDEX, re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == _own_alerts()


@pytest.mark.parametrize("name", sorted(runbooks()))
def test_a_page_has_its_four_parts(name: str) -> None:
    page = runbooks()[name]

    assert page.startswith(f"# {name}\n")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == PARTS
    assert all(len(part.strip()) > 20 for part in re.split(r"^## .+$", page, flags=re.MULTILINE)[1:])
    assert blocks_in(page, "sh")
    assert blocks_in(page, "promql")


@pytest.mark.parametrize("name", sorted(runbooks()))
def test_a_page_names_only_commands_and_series_that_exist(name: str) -> None:
    page = runbooks()[name]
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    queries = "\n".join(blocks_in(page, "promql"))

    for arguments in _commands(page):
        _parse(arguments)
    assert series_in(queries) <= published.series_names()
    assert recorded_in(page) <= recorded


@pytest.mark.parametrize("line", ["rankwatch nothing", "rankwatch runs --nothing", "rankwatch db nothing"])
def test_a_command_that_does_not_exist_is_found_out(line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no (such option|command)"):
        _parse(_commands(f"`{line}`")[0])


def test_every_query_of_every_page_parses(tmp_path: Path) -> None:
    queries = [query for page in runbooks().values() for query in blocks_in(page, "promql")]
    records = [{"record": f"page:query:number{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": records}]}))

    _run(require("promtool"), "check", "rules", str(tmp_path / "queries.yml"))
