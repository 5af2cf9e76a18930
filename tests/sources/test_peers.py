"""Both arms of a small recommender behind MLServer."""

import pandas as pd
import pytest

from forking import rankwatch
from servers.cooccurrence import USERS, recommend
from servers.mlserver import running_mlserver

pytestmark = pytest.mark.integration
ARMS = ("baseline", "candidate")


def rows_of(arm):
    """A row an item."""
    items, scores = recommend(arm)
    columns = {
        "who": USERS,
        "what": [*items],
        "score": [*scores],
        "place": [range(10)] * len(USERS),
    }
    return pd.DataFrame(columns).explode(["what", "score", "place"])


CONFIG = """
database: sqlite:///rankwatch.db
comparisons:
- &files
  name: files
  every: 1d
  k: 10
  users: {file: {path: users.csv, user: user}}
  baseline: {file: &lists {path: baseline.csv, user: who, item: what, rank: place, scores: score}}
  candidate: {file: {<<: *lists, path: candidate.csv}}
  scores_to: {file: {path: files.parquet}}
- <<: *files
  name: served
  baseline: {http: &server {profile: open-inference, url: URL, with: {model: baseline, scores: scores}}}
  candidate: {http: {<<: *server, with: {model: candidate, scores: scores}}}
  scores_to: {file: {path: served.parquet}}
"""


def test_mlserver_has_the_scores_of_files(tmp_path):
    """`check` finds nothing wrong with both of its models, and `run-once` the scores of the same lists in files."""
    for arm in ARMS:
        rows_of(arm).to_csv(tmp_path / f"{arm}.csv", index=False)
    (tmp_path / "users.csv").write_text("\n".join(["user", *USERS]))
    with running_mlserver() as url:
        (tmp_path / "rankwatch.yaml").write_text(CONFIG.replace("URL", url))
        for command in (["check"], ["run-once", "--slot", "2024-01-08"]):
            done = rankwatch(*command, cwd=tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr
    of_files, served = (
        pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("files", "served")
    )
    pd.testing.assert_frame_equal(served, of_files, check_exact=True)
    assert len(served) == len(USERS)
    assert served.drop(columns="user").mean().between(0.05, 0.95).all(), (
        "the arms differ, and not in all"
    )
