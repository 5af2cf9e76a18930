"""What upkeep deletes is counted and logged."""

from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import text
from structlog.testing import CapturingLogger

from factories import SLOT
from monitor.export import PrometheusPublisher
from monitor.service.daemon import upkeep
from monitor.settings.configuration import RetentionOptions
from monitor.storage import SqlStore, open_store
from storage.worked import run

DAY = timedelta(days=1)
NOW = SLOT + 50 * DAY


def samples(publisher: PrometheusPublisher) -> dict[str, float]:
    text = publisher.render()[0].decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")}


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    found = CapturingLogger()
    monkeypatch.setattr(upkeep, "log", found)
    return found


def test_what_is_deleted_is_counted_by_kind_and_logged(store: SqlStore, logs: CapturingLogger) -> None:
    publisher = PrometheusPublisher(version="1")
    for days in (0, 1, 48):  # the last one confirms the clock
        run(store, SLOT + days * DAY)
    upkeep.prune_old(store, publisher, NOW, RetentionOptions(scores=timedelta(days=49)))

    shown = samples(publisher)
    assert shown['rankwatch_pruned_rows_total{kind="scores"}'] == 3
    assert shown["rankwatch_prune_last_success_timestamp_seconds"] == (SLOT + 50 * DAY).timestamp()
    assert shown['rankwatch_database_size_bytes{kind="evidence"}'] > 0
    assert [call.method_name for call in logs.calls] == ["info"]


def test_what_was_put_off_is_logged_with_its_reason(postgres_url: str, logs: CapturingLogger) -> None:
    publisher = PrometheusPublisher(version="1")
    with closing(open_store(postgres_url, create=True)) as store:
        for days in (6, 5, 4, 3):
            run(store, NOW - days * DAY)
        with store.database.write() as connection:
            connection.execute(text("CREATE VIEW theirs AS SELECT * FROM scores_2024_02_21"))
        upkeep.prune_old(store, publisher, NOW, RetentionOptions(scores=5 * DAY))

    (told,) = [call for call in logs.calls if call.method_name == "warning"]
    assert told.args == ("old rows put off",)
    assert told.kwargs["reason"].endswith(" holds what a view or another object is made of: drop that first")


def test_a_clock_that_no_run_confirms_deletes_nothing_and_is_logged(store: SqlStore, logs: CapturingLogger) -> None:
    publisher = PrometheusPublisher(version="1")
    run(store, SLOT - 700 * DAY)
    upkeep.prune_old(store, publisher, NOW, RetentionOptions())
    assert len(store.history.runs(comparison=None, limit=9)) == 1

    (logged,) = logs.calls
    assert (logged.method_name, "no run is newer than 2022-02-07T00:00:00Z" in logged.kwargs["reason"]) == ("warning", True)
    assert "rankwatch_prune_last_success_timestamp_seconds" not in samples(publisher)
