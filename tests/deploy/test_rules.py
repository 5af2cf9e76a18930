"""Rules and configurations of Prometheus and Alertmanager, by their own tools."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

import published
from servers import require

HERE = Path(__file__).parent
STORY = HERE / "rankwatch.rules.test.yml"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _alerts(deploy: Path) -> list[dict[str, object]]:
    groups = yaml.safe_load((deploy / "prometheus" / "rankwatch.rules.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_promtool_accepts_the_rules_with_every_lint(deploy: Path) -> None:
    _run(
        require("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(deploy / "prometheus" / "rankwatch.rules.yml")
    )


def test_promtool_accepts_the_configuration(deploy: Path) -> None:
    _run(require("promtool"), "check", "config", "--lint=all", "--lint-fatal", str(deploy / "prometheus" / "prometheus.yml"))


def test_every_alert_fires_and_its_twin_does_not() -> None:
    _run(require("promtool"), "test", "rules", str(STORY))


def test_amtool_accepts_the_configuration(deploy: Path) -> None:
    _run(require("amtool"), "check-config", str(deploy / "alertmanager" / "alertmanager.yml"))


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=SimilarityLow", "severity=critical"), "on-call"),
        (("alertname=RankwatchDown", "severity=critical"), "on-call"),
        (("alertname=RankwatchSimilarityAlertFiring", "severity=critical"), "nobody"),
    ],
)
def test_an_alert_goes_to_its_receiver(deploy: Path, labels: tuple[str, ...], receiver: str) -> None:
    config = f"--config.file={deploy / 'alertmanager' / 'alertmanager.yml'}"

    _run(require("amtool"), "config", "routes", "test", config, f"--verify.receivers={receiver}", *labels)


def test_every_alert_has_a_story_in_which_it_fires_and_one_in_which_it_does_not(deploy: Path) -> None:
    cases = [
        case for test in yaml.safe_load(STORY.read_text(encoding="utf-8"))["tests"] for case in test.get("alert_rule_test", [])
    ]
    fired = {case["alertname"] for case in cases if case["exp_alerts"]}
    quiet = {case["alertname"] for case in cases if not case["exp_alerts"]}

    assert {rule["alert"] for rule in _alerts(deploy)} == fired == quiet


def test_every_alert_says_what_it_means_and_has_its_runbook(deploy: Path) -> None:
    headings = re.findall(r"^### (\w+)$", (deploy / "README.md").read_text(encoding="utf-8"), re.MULTILINE)

    for rule in _alerts(deploy):
        annotations, labels = rule["annotations"], rule.get("labels", {})
        assert isinstance(annotations, dict)
        assert isinstance(labels, dict)
        assert "{{" not in annotations["summary"], "a summary is the same for all alerts of a rule"
        assert annotations["description"]
        assert annotations["runbook_url"] == f"deploy/README.md#{str(rule['alert']).lower()}"
        assert labels.get("severity", "from the series") in {"critical", "warning", "from the series"}
    assert headings == [rule["alert"] for rule in _alerts(deploy)]


def test_the_rules_use_only_series_that_exist(deploy: Path) -> None:
    text = (deploy / "prometheus" / "rankwatch.rules.yml").read_text(encoding="utf-8")
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    used = {name for rule in rules for name in re.findall(r"\brankwatch_\w+", re.sub(r'"[^"]*"', "", rule["expr"]))}

    assert used - published.series_names() == set()
    assert len(used) > 10
