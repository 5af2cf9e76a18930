"""Rules, routes and runbooks, by the tools of Prometheus and Alertmanager: at any budget, and page by page."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from alerts_reference import DEFAULT, UNPAIRED, severities
from deploy.dashboards import labels_by_name
from deploy.shipped import (
    DASHBOARD_BASE,
    DEPLOY,
    DOCS,
    ROUTES,
    RULES,
    RUNBOOK_BASE,
    alerts,
    blocks_in,
    groups_of_rules,
    guide,
    parse_command,
    recorded_in,
    rules,
    runbooks,
    series_in,
    yaml_of,
)
from forking import run_program
from monitor.model.rules import UNPAIRED_CONDITIONS, Severity
from monitor.model.urgency import URGENT_SHARE
from monitor.service.daemon.outage import DATABASE_AWAY
from monitor.settings.comparison_options import CONDITION_ALERTS
from monitor.settings.configuration import Settings
from monitor.settings.runbooks import OTHER_METRIC, OWN_RULE, RUNBOOKS, runbook_of
from monitor.settings.translation import to_comparison
from monitor.texts.actions import write_urgency
from runbooks.samples import MESSAGE_GUIDE, Worlds, short_folder, with_samples
from servers import require

HERE = Path(__file__).parent
PLACE = "cluster, job, namespace"
"""Labels that differ between environments."""
STORIES = sorted(HERE.glob("rankwatch.rules*.test.yml"))


ALERTS = {alert.name for alert in alerts()}


def _run(program, command, *files):
    """Run this command, with the files as further arguments, and require that it succeeds."""
    words = [require(program), *command.split(), *map(str, files)]
    done = run_program(words)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.integration
def test_promtool_accepts_the_configuration_and_its_rules_with_every_lint():
    config = DEPLOY / "prometheus/prometheus.yml"
    _run("promtool", "check config --lint=all --lint-fatal", config)


def _needed_rules(test):
    """The groups of rules, but in them only what the test asks for, and what that is computed from."""
    asked = str(
        [test.get("alert_rule_test"), [case["expr"] for case in test.get("promql_expr_test", [])]]
    )
    groups = []
    for group in reversed(groups_of_rules()):
        needed = []
        for rule in reversed(group["rules"]):
            if re.search(rf"(?<![\w:]){rule.get('alert') or rule['record']}(?![\w:])", asked):
                needed.insert(0, rule)
                asked += f"\n{rule['expr']}"
        groups.insert(0, {**group, "rules": needed})
    return groups


@pytest.mark.integration
@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.name)
def test_every_alert_fires_and_its_twin_does_not(story, tmp_path):
    """Each test with the rules that it needs alone: promtool would evaluate them all, minute by minute."""
    whole = yaml.safe_load(story.read_text())
    for number, test in enumerate(whole["tests"]):
        rules = {"groups": _needed_rules(test)}
        part = {**whole, "tests": [test], "rule_files": [f"{number}.rules.yml"]}
        for name, content in (("rules", rules), ("test", part)):
            (tmp_path / f"{number}.{name}.yml").write_text(json.dumps(content))
    _run("promtool", "test rules", *sorted(tmp_path.glob("*.test.yml")))


def test_every_alert_has_a_story_in_which_it_fires_and_one_in_which_it_does_not():
    fired, twins = set(), set()
    for story in STORIES:
        for test in yaml.safe_load(story.read_text())["tests"]:
            cases = test.get("alert_rule_test", [])
            here = {case["alertname"] for case in cases if case["exp_alerts"]}
            fired |= here
            twins |= {case["alertname"] for case in cases} - here
    assert fired == twins == ALERTS


INHIBITIONS = yaml_of("alertmanager/alertmanager.yml")["inhibit_rules"]
ROUTED = {"critical": "on-call", "warning": "tickets", "info": "nobody"}
"""Receivers by severity, for alerts about which rankwatch itself does not notify."""


@pytest.mark.integration
def test_an_alert_goes_to_the_receiver_of_its_severity_unless_rankwatch_notifies():
    """Routes match alerts of Prometheus by severity and notified_by, and those of rankwatch also by incident."""
    routes = ROUTES.read_text().partition("\nreceivers:")[0]
    assert set(re.findall(r"matchers: \[(\w+)", routes)) == {"notified_by", "incident", "severity"}
    for severity, usual in ROUTED.items():
        for label, receiver in (
            ("", usual),
            ("incident=x", usual),
            ("notified_by=rankwatch", "nobody"),
        ):
            wanted = f"--verify.receivers={receiver} severity={severity} {label}"
            _run("amtool", f"config routes test --config.file={ROUTES} {wanted}")


def test_every_inhibition_names_alerts_that_exist_and_is_within_their_place_only():
    known = {*ALERTS, *severities(), "Rankwatch.+"}
    for rule in INHIBITIONS:
        assert not _named(rule["source_matchers"] + rule["target_matchers"]) - known
        assert rule["equal"][:3] == PLACE.split(", ")


def test_an_alert_that_nobody_receives_inhibits_no_alert_that_wakes_somebody_up():
    silent = {alert.name for alert in alerts() if alert.notified_by}
    waking = {alert.name for alert in alerts() if alert.severity == "critical"} - silent
    inhibited = {
        name
        for rule in INHIBITIONS
        if _named(rule["source_matchers"]) & silent
        for name in _named(rule["target_matchers"])
    }

    assert {"RankwatchDatabaseDown"} <= silent
    assert {"RankwatchNoLeader", "RankwatchNoSuccessfulRun"} <= waking
    assert not inhibited & waking


def _named(matchers):
    """The alerts that the matchers name."""
    values = re.findall(r'alertname!?=~?"([^"]+)"', " ".join(matchers))
    return {name for value in values for name in value.split("|")}


def test_an_alert_says_how_bad_it_is_what_it_means_and_where_to_look():
    board = rf"{re.escape(DASHBOARD_BASE)}(overview|comparison|daemon)(\?var-|$)"
    for alert in alerts():
        said = alert.annotations
        assert alert.notified_by in {None, "rankwatch"}, alert
        assert alert.severity in ROUTED or alert.name == "RankwatchSimilarityAlertFiring"
        assert "{{" not in said["summary"], f"{alert.name}: the same for all alerts of a rule"
        assert "{{" in said["description"], alert.name
        assert said["runbook_url"] == f"{RUNBOOK_BASE}{alert.name}"
        assert re.match(board, said["dashboard_url"]), alert.name
        assert said.keys() == {"summary", "description", "runbook_url", "dashboard_url"}


def test_what_is_about_a_comparison_is_taken_once_of_all_daemons():
    """A rule over series with these labels neither keeps the instance nor adds up what two daemons show of the same."""
    shared, labels = {"comparison", "receiver", "ping"}, labels_by_name()
    for rule in rules():
        text = rule["expr"]
        if any(shared & labels[name] for name in series_in(text)):
            groupings = (f"by ({PLACE}, ", f"on ({PLACE}, comparison) rankwatch_alert_state")
            assert any(each in text for each in groupings), text
            counters = ("_total", "_bucket", "_count", "_sum")
            summed = re.findall(r"sum by \([^)]*\) \(\s*(rankwatch_\w+)", text)
            assert all(name.endswith(counters) for name in summed), text


def test_whatever_other_labels_targets_have_rules_aggregate_and_match_by_those_of_the_place():
    """A label that one target has and its fellow has not would divide what belongs together."""
    for rule in rules():
        groupings = re.findall(r"\b(by|without|on) \(([^)]*)\)", rule["expr"])
        assert "without" not in {word for word, _ in groupings}, rule["expr"]
        assert all(names == "" or names.startswith(PLACE) for _, names in groupings), rule["expr"]


@pytest.mark.integration
def test_the_documented_command_sets_every_address_and_the_job(tmp_path):
    """As docs/how-to/alerting.md has it."""
    command = re.search(
        r"^sed --in-place .*?rankwatch\.rules\.yml$",
        guide("how-to/alerting.md"),
        re.MULTILINE | re.DOTALL,
    )
    assert command
    (tmp_path / "deploy" / "prometheus").mkdir(parents=True)
    copy = tmp_path / "deploy" / "prometheus" / "rankwatch.rules.yml"
    copy.write_text(RULES.read_text())

    subprocess.run(["/bin/sh", "-c", command[0]], cwd=tmp_path, check=True)

    changed = yaml.safe_load(copy.read_text())["groups"]
    assert "example.com" not in copy.read_text()
    queries = [rule["expr"] for group in changed for rule in group["rules"]]
    assert 'job=~"rankwatch' not in str(queries)
    _run("promtool", "check rules --lint=all --lint-fatal", copy)


@pytest.mark.integration
def test_everybody_below_the_floor_burns_any_budget_fast_and_what_it_allows_does_not(tmp_path):
    for budget in ["0.07", "0.9"]:
        rules, test = RULES.read_text(), (HERE / "budget.test.yml").read_text()
        assert rules.count("vector(0.05)") == 1
        (tmp_path / "rules.yml").write_text(rules.replace("vector(0.05)", f"vector({budget})"))
        (tmp_path / "test.yml").write_text(test.replace('"0.05x', f'"{budget}x'))
        _run("promtool", "test rules", tmp_path / "test.yml")


PARTS = ["Urgency", "Mitigation", "First command", "When to escalate", "Sample message"]
URGENT = (
    f"**Urgent if at least {100 * URGENT_SHARE:.0f} % of the users are concerned, or if users get "
    "other users' lists: call the owner"
)
INDEX = guide("runbooks/index.md")
NAMED_FOR_METRICS = {"metrics": ["extended_tau", "jaccard", "footrule"]}


def _rules(default=DEFAULT, **options):
    settings = Settings.model_validate({"comparisons": [{**default, **options}]})
    comparison = to_comparison(settings.comparisons[0])
    return {rule.alert: rule for rule in comparison.judging.rules}


def _commands(page):
    typed = [line.removeprefix("$ ") for line in blocks_in(page, "console")]
    spoken = [*blocks_in(page, "sh"), *typed, *re.findall(r"`(rankwatch [^`]+)`", page)]
    return [
        shlex.split(line, comments=True)[1:] for line in spoken if line.startswith("rankwatch ")
    ]


def test_every_alert_has_its_runbook_and_every_runbook_its_alert():
    rules = [*_rules().values(), *_rules(UNPAIRED).values()]
    of_rankwatch = {*map(runbook_of, rules), DATABASE_AWAY}
    assert of_rankwatch == RUNBOOKS
    further = {runbook_of(rule) for rule in _rules(**NAMED_FOR_METRICS).values()}
    assert further - RUNBOOKS == {OTHER_METRIC}
    own = {"alert": "Mine", "metric": "overlap", "below": 0.5}
    assert runbook_of(_rules(rules=[own])["Mine"]) == OWN_RULE
    assert runbooks().keys() == of_rankwatch | ALERTS | {OTHER_METRIC, OWN_RULE}


def test_the_index_links_the_page_of_every_alert_and_says_what_the_rules_say():
    assert set(re.findall(r"\]\((\w+)\.md\)", INDEX)) == runbooks().keys()
    for alert in alerts():
        row = rf"^\| \[{alert.name}\]\({alert.name}\.md\) .*\| {re.escape(alert.annotations['summary'])} \|$"
        assert re.search(row, INDEX, re.MULTILINE), alert.name


def test_a_page_has_its_five_parts_and_names_only_commands_and_series_that_exist():
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for name, page in runbooks().items():
        title, *parts = re.split(r"^#+ (.+)$", page, flags=re.MULTILINE)[1::2]
        assert (title, [part for part in parts if part != "Details"]) == (name, PARTS)
        assert all(len(part.strip()) > 20 for part in page.split("\n## ")[1:]), name
        queries = blocks_in(page, "promql")
        assert blocks_in(page, "console"), name
        assert queries, name
        for arguments in _commands(page):
            parse_command(arguments)
        assert series_in("\n".join(queries)) <= labels_by_name().keys(), name
        assert recorded_in(page) <= recorded, name


def test_the_urgency_of_a_page_is_that_of_its_alert():
    of_prometheus = {alert.name: alert.severity for alert in alerts() if alert.severity}
    for name, severity in {**severities(), **of_prometheus}.items():
        page = runbooks()[name]
        assert f"**{write_urgency(Severity(severity))}**" in page, name
        counts_no_users = {
            *of_prometheus,
            *(CONDITION_ALERTS[each] for each in UNPAIRED_CONDITIONS),
            "FewerUsers",
            "BaselineFewerUsers",
        }
        assert (URGENT in page) is (severity == "warning" and name not in counts_no_users), name


def test_the_first_command_of_a_page_comes_after_at_most_250_words():
    for name, page in runbooks().items():
        top = page.split("## First command")[0]
        for included in re.findall(r"\.\./_parts/(\w+\.md)", top):
            top += (DOCS / "_parts" / included).read_text()
        assert len(re.findall(r"[^\s|]*\w\S*", top)) <= 250, name


@pytest.mark.early(30)
@pytest.mark.slow
def test_messages_and_outputs_of_the_pages_are_what_rankwatch_sends_and_prints():
    """`PYTHONPATH=.:tests:config python -m runbooks.samples` writes them again."""
    with short_folder() as folder:
        worlds = Worlds(Path(folder))
        for name, page in {**runbooks(), "message": MESSAGE_GUIDE.read_text()}.items():
            assert with_samples(page, worlds) == page, name


@pytest.mark.integration
def test_every_query_of_every_page_parses(tmp_path):
    queries = "\n".join(runbooks().values())
    records = [
        {"record": f"page:query:number{number}", "expr": query}
        for number, query in enumerate(blocks_in(queries, "promql"))
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": records}]}))
    _run("promtool", "check rules", file)
