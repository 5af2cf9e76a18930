"""What is tidied up is counted and told, early deletion loudest."""

from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from structlog.testing import CapturingLogger

from factories import SLOT
from monitor.export import PrometheusPublisher
from monitor.service.daemon import upkeep
from monitor.service.daemon.upkeep import Upkeep
from monitor.settings import RetentionOptions
from monitor.settings.value_types import ByteCount
from monitor.storage import open_store
from storage.worked import run

DAY = timedelta(days=1)


class _Clock:
    """Stands still."""

    def now(self) -> datetime:
        return SLOT + 50 * DAY

    def monotonic(self) -> float:
        return 0.0


def samples(publisher: PrometheusPublisher) -> dict[str, float]:
    text = publisher.render()[0].decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")}


@pytest.mark.parametrize("is_full", [False, True])
def test_what_is_deleted_is_counted_by_kind_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_full: bool) -> None:
    logs = CapturingLogger()
    monkeypatch.setattr(upkeep, "log", logs)
    publisher = PrometheusPublisher(version="1")
    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)) as store:
        for days in (0, 1, 48):  # the last one bears the clock out
            run(store, SLOT + days * DAY)
        options = RetentionOptions(scores=timedelta(days=49), max_size=ByteCount(1000 if is_full else 10**6))
        Upkeep(store=store, publisher=publisher, clock=_Clock()).prune(options)

    shown = samples(publisher)
    early = 6.0 if is_full else 0.0
    assert shown['rankwatch_pruned_rows_total{kind="scores",reason="age"}'] == 6
    assert shown['rankwatch_pruned_rows_total{kind="scores",reason="size"}'] == early
    assert shown["rankwatch_prune_last_success_timestamp_seconds"] == (SLOT + 50 * DAY).timestamp()
    assert shown['rankwatch_database_size_bytes{kind="evidence"}'] > 0
    told = [call.method_name for call in logs.calls]
    assert told == (["info", "warning", "error"] if is_full else ["info"])


def test_what_was_put_off_is_told_with_its_reason(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = CapturingLogger()
    monkeypatch.setattr(upkeep, "log", logs)
    publisher = PrometheusPublisher(version="1")
    with closing(open_store(postgres_url, create=True)) as store:
        for days in (6, 5, 4, 3):
            run(store, _Clock().now() - days * DAY)
        with store.database.write() as connection:
            connection.execute(text("CREATE VIEW theirs AS SELECT * FROM scores_from_0"))
        Upkeep(store=store, publisher=publisher, clock=_Clock()).prune(RetentionOptions(scores=5 * DAY))

    (told,) = [call for call in logs.calls if call.method_name == "warning"]
    assert told.args == ("old rows put off",)
    assert told.kwargs["reason"].startswith("scores_from_0 was not dropped: a view or another object is made of it")


def test_a_clock_that_no_run_bears_out_is_told_of_and_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = CapturingLogger()
    monkeypatch.setattr(upkeep, "log", logs)
    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)) as store:
        run(store, SLOT - 700 * DAY)
        Upkeep(store=store, publisher=PrometheusPublisher(version="1"), clock=_Clock()).prune(RetentionOptions())
        assert len(store.history.runs(comparison=None, limit=9)) == 1

    (told,) = logs.calls
    assert (told.method_name, told.kwargs["counted_from"]) == ("info", "2022-02-10T00:00:00Z")
