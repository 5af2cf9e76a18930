"""Files in object storage are read as those on disk are: the same lists, the same errors, nothing left over."""

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError

from monitor.model.errors import SourceError
from monitor.sources.file import FileSourceOptions
from servers.buckets import forgotten_stores, running_buckets
from servers.lists import pull_of
from sources.file.test_joined import joined_files, joined_lists

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def address():
    with running_buckets() as address:
        yield address


@pytest.fixture
def store(address, monkeypatch):
    """A bucket ``lists`` of a server that the environment names."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CR3T")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with forgotten_stores():
        files = fsspec.filesystem("s3", use_listings_cache=False)
        files.makedirs("lists", exist_ok=True)
        yield files


def joined(path):
    options = FileSourceOptions(path=path, user="user", items="items")
    return joined_lists(joined_files(options, options))


def test_a_store_gives_what_the_disk_gives(store, tmp_path):
    (tmp_path / "day").mkdir()
    for name in ("a", "b"):
        table = pa.table({"user": [name, name * 2], "items": [[1, 2], [3]]})
        pq.write_table(table, tmp_path / f"day/{name}.parquet")
    (tmp_path / "lists.csv").write_text('user,items\na,"[1, 2]"\n')
    store.put(f"{tmp_path}/", "lists", recursive=True)

    for path in ("day", "day/*.parquet", "lists.csv"):
        in_store = joined(f"s3://lists/{path}")
        assert in_store == joined(f"{tmp_path}/{path}")
        assert "a" in in_store


@pytest.mark.parametrize(
    "path", ["s3://lists/none.csv", "s3://nowhere/lists.csv", "s3://lists/none/*.csv"]
)
@pytest.mark.usefixtures("store")
def test_what_is_not_in_the_store_may_come_later(path):
    with pytest.raises(SourceError, match=r"does not exist|has no file") as caught:
        pull_of("u1", file={"path": path, "user": "user", "items": "items"})
    assert not caught.value.permanent


def test_credentials_that_are_refused_are_said_and_not_shown(store, monkeypatch):
    async def refused(*_, **__):
        msg = "The provided token has expired."
        answer = {"Error": {"Code": "ExpiredToken", "Message": msg}}
        raise PermissionError(msg) from ClientError(answer, "ListObjectsV2")

    monkeypatch.setattr(type(store), "_call_s3", refused)
    with pytest.raises(
        SourceError, match=r"the credentials have expired.*check the credentials in the environment"
    ) as caught:
        pull_of("u1", file={"path": "s3://lists/day", "user": "user", "items": "items"})
    assert not caught.value.permanent
    assert "S3CR3T" not in str(caught.value)
