"""Both arms of a small recommender behind what teams serve from: `check` and `run-once` find the scores of files."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pandas as pd
import pytest
import sqlalchemy as sa

from forking import rankwatch
from monitor.model.rankings import CoverageReason
from servers.buckets import running_buckets
from servers.cooccurrence import USERS, recommend
from servers.lists import pull_of
from servers.mlserver import running_mlserver

pytestmark = pytest.mark.integration
ARMS = ("baseline", "candidate")
COLUMNS = {"user": "who", "item": "what", "rank": "place", "scores": "score"}
POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
Given = dict[str, dict[str, Any]]


def rows_of(arm: str) -> pd.DataFrame:
    """A row an item."""
    lists = zip(USERS, *recommend(arm), strict=True)
    rows = [(who, *row) for who, items, scores in lists for row in zip(range(10), items.tolist(), scores.tolist(), strict=True)]
    return pd.DataFrame(rows, columns=["who", "place", "what", "score"])


@contextmanager
def mlserver() -> Iterator[Given]:
    with running_mlserver() as url:
        server = {"profile": "open-inference", "url": url}
        yield {arm: {"http": {**server, "with": {"model": arm, "scores": "scores"}}} for arm in ARMS}


@contextmanager
def buckets() -> Iterator[Given]:
    """The baseline a file, the candidate an object a user over HTTP; moto checks signatures, and whose keys they are."""
    with running_buckets() as url, pytest.MonkeyPatch.context() as patch:
        from moto.core import enable_iam_authentication  # noqa: PLC0415 - loaded by now

        for name, value in (
            ("DEFAULT_REGION", "eu-west-1"),
            ("ACCESS_KEY_ID", "x"),
            ("SECRET_ACCESS_KEY", "x"),
            ("ENDPOINT_URL", url),
        ):
            patch.setenv(f"AWS_{name}", value)
        people, store = boto3.client("iam"), boto3.client("s3")
        people.create_user(UserName="rankwatch")
        people.put_user_policy(UserName="rankwatch", PolicyName="reads", PolicyDocument=POLICY)
        key = people.create_access_key(UserName="rankwatch")["AccessKey"]
        store.create_bucket(Bucket="recs", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        store.put_object(Bucket="recs", Key="baseline.csv", Body=rows_of("baseline").to_csv(index=False))
        for who, rows in rows_of("candidate").groupby("who"):
            store.put_object(Bucket="recs", Key=f"b c/{who}", Body=rows.to_json(orient="records"))
        patch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        asked = {"url": f"{url}/recs/b%20c%2F{{user}}", "items": "[].what", "scores": "[].score"}
        signed = {"region": "eu-west-1", "service": "s3"}
        with enable_iam_authentication():
            wrong = {"aws": {**signed, "access_key": key["AccessKeyId"], "secret_key": "wrong"}}
            assert pull_of("u1", http=asked | {"auth": wrong}).failures == {"u1": CoverageReason.HTTP_ERROR}
            yield {
                "baseline": {"file": {"path": "s3://recs/baseline.csv", **COLUMNS}},
                "candidate": {"http": asked | {"auth": {"aws": signed}}},
            }


def fill_tables(url: str) -> Given:
    engine = sa.create_engine(url)
    for arm in ARMS:
        rows_of(arm).to_sql(arm, engine, index=False)
    engine.dispose()
    return {arm: {"sql": {"url": url, "table": arm, **COLUMNS}} for arm in ARMS}


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
- {<<: *files, name: served, scores_to: {file: {path: served.parquet}}, SERVED}
"""


def assert_scores_of_files(sources: Given, folder: Path) -> None:
    """`check` finds nothing wrong with these sources, and `run-once` the scores of the same lists in files."""
    for arm in ARMS:
        rows_of(arm).to_csv(folder / f"{arm}.csv", index=False)
    (folder / "users.csv").write_text("\n".join(["user", *USERS]))
    (folder / "rankwatch.yaml").write_text(CONFIG.replace("SERVED", json.dumps(sources)[1:-1]))

    for command in (["check"], ["run-once", "--slot", "2024-01-08"]):
        done = rankwatch(*command, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
    of_files, served = (pd.read_parquet(folder / f"{name}.parquet") for name in ("files", "served"))
    pd.testing.assert_frame_equal(served, of_files, check_exact=True)
    assert len(served) == len(USERS)
    assert served.drop(columns="user").mean().between(0.05, 0.95).all(), "the arms differ, and not in all"


@pytest.mark.parametrize("serve", [mlserver, buckets], ids=lambda serve: str(serve.__name__))
def test_what_is_served_has_the_scores_of_files(serve: Callable[[], AbstractContextManager[Given]], tmp_path: Path) -> None:
    with serve() as sources:
        assert_scores_of_files(sources, tmp_path)


def test_tables_of_postgresql_have_the_scores_of_files(postgres_url: str, tmp_path: Path) -> None:
    assert_scores_of_files(fill_tables(postgres_url), tmp_path)
