"""The content of the shipped rules, routes and runbooks."""

import re
from functools import cache

import yaml

from commands import find_command
from monitor.model.immutable import immutable
from places import ROOT

DEPLOY = ROOT / "deploy"
DOCS = ROOT / "docs"
RULES = DEPLOY / "prometheus/rankwatch.rules.yml"
ROUTES = DEPLOY / "alertmanager/alertmanager.yml"
RUNBOOK_BASE = "https://rankwatch.example.com/docs/runbooks/"
DASHBOARD_BASE = "https://grafana.example.com/d/rankwatch-"


def text_of(path):
    return (DEPLOY / path).read_text()


def guide(path):
    return (DOCS / path).read_text()


def yaml_of(path):
    return yaml.safe_load(text_of(path))


def moved(text, places):
    """The text with other places in it, each of which it must name."""
    for name, place in places.items():
        assert name in text
        text = text.replace(name, place)
    return text


@immutable
class Alert:
    """One alerting rule. ``severity`` is None where the series bears it."""

    name: str
    severity: str | None
    notified_by: str | None
    annotations: dict[str, str]


@cache
def groups_of_rules():
    return yaml_of("prometheus/rankwatch.rules.yml")["groups"]


def rules():
    return [rule for group in groups_of_rules() for rule in group["rules"]]


def alerts():
    return [
        Alert(
            name=rule["alert"],
            severity=rule["labels"].get("severity"),
            notified_by=rule["labels"].get("notified_by"),
            annotations=rule["annotations"],
        )
        for rule in rules()
        if "alert" in rule
    ]


def runbooks():
    """Text of each page but the index, by name."""
    return {
        path.stem: path.read_text() for path in DOCS.glob("runbooks/*.md") if path.stem != "index"
    }


def series_in(text):
    """Names of rankwatch's own series, recorded ones left out."""
    return set(re.findall(r"(?<![:\w])rankwatch_\w+\b(?!:)", re.sub(r'"[^"]*"', "", text)))


def recorded_in(text):
    return set(re.findall(r"\b[a-z_]+:[a-z_]+:\w+", text))


def blocks_in(page, language):
    """Lines of the page's code blocks in this language."""
    return [
        line
        for block in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
        for line in block.splitlines()
    ]


def parse_command(arguments):
    """The parameters that the command reads from the arguments. Wrong usage is an error. Nothing is run."""
    command, arguments = find_command(arguments)
    if arguments == ["--help"]:
        return {}
    if hasattr(command, "commands"):
        assert not arguments, f"no command {arguments}"
        return {}
    return command.make_context("rankwatch", arguments).params
