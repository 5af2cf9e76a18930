"""Burn of the budget fires whatever the budget is: 14.4 times a large one is more than everybody."""

import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.shipped import RULES
from servers import require


def _shown(comparison: str, share: float) -> dict[str, float]:
    """What a comparison shows while this share of its users is below a floor."""
    of_it = f'job="rankwatch", instance="a", comparison="{comparison}"'
    of_metric = f'{of_it}, metric="rbo", segment="all"'
    return {
        f"rankwatch_similarity_mean{{{of_metric}}}": 0.5,
        f"rankwatch_similarity_users{{{of_metric}}}": 100,
        f'rankwatch_similarity_share_below_ratio{{{of_metric}, floor="0.3"}}': share,
        f'rankwatch_run_status{{{of_it}, status="ok"}}': 1,
    }


@pytest.mark.parametrize("budget", [0.07, 0.2, 0.9])
def test_everybody_below_the_floor_burns_any_budget_fast_and_what_it_allows_does_not(tmp_path: Path, budget: float) -> None:
    text = RULES.read_text(encoding="utf-8")
    assert text.count("vector(0.05)") == 1
    (tmp_path / "rules.yml").write_text(text.replace("vector(0.05)", f"vector({budget})"), encoding="utf-8")
    shown = _shown("everybody", 1.0) | _shown("allowed", budget)
    firing = 'count by (comparison) (ALERTS{alertname="RankwatchUsersBelowFloorFastBurn", alertstate="firing"})'
    test = {
        "interval": "1m",
        "input_series": [{"series": series, "values": f"{value}x70"} for series, value in shown.items()],
        "promql_expr_test": [
            {"expr": firing, "eval_time": "70m", "exp_samples": [{"labels": '{comparison="everybody"}', "value": 1}]}
        ],
    }
    groups = [group["name"] for group in yaml.safe_load(text)["groups"]]
    story = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "group_eval_order": groups, "tests": [test]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(story), encoding="utf-8")

    done = subprocess.run(
        [require("promtool"), "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
