"""Several rankwatch that notify one receiver: their incidents are told apart."""

from contextlib import closing
from pathlib import Path

from factories import SLOT, HeldClock
from monitor.model.alerts import Transition
from monitor.service.composition import wire
from monitor.service.runner import Runner
from monitor.settings.loader import load_settings
from monitor.storage import SqlStore, open_store
from service.lists_world import APART, write_lists, write_world


def started(folder: Path, head: str = "") -> Transition:
    """The first alert of a run of two arms far apart, in a database of its own."""
    folder.mkdir()
    write_lists(folder / "candidate.jsonl", APART)
    config = write_world(folder, f"sqlite:///{folder}/rankwatch.db", every="1d")
    config.write_text(head + config.read_text().replace("for: 2", "for: 1"))
    settings = load_settings(config)
    wiring = wire(settings)
    with closing(open_store(settings.database, create=True)) as store:
        assert Runner(store=store, clock=HeldClock()).run(wiring.watched["feed"], SLOT, receivers=()) is not None
        return store.alerts.firing()[0]


def test_the_same_alert_of_two_databases_has_two_keys_and_a_name_is_its_label(tmp_path: Path) -> None:
    first, second, named = started(tmp_path / "a"), started(tmp_path / "b"), started(tmp_path / "c", "installation: shop-eu\n")
    again = started(tmp_path / "d", "installation: shop-eu\n")
    assert len({key for start in (first, second, named) for key in (start.dedup_key, start.incident)}) == 6
    assert (named.dedup_key, named.incident) == (again.dedup_key, again.incident)
    assert (first.labels, named.labels) == ({}, {"installation": "shop-eu"})


def test_a_database_keeps_its_id(store: SqlStore) -> None:
    found = store.alerts.installation(create=True)
    with closing(open_store(store.database.url.render_as_string(hide_password=False), create=False)) as again:
        assert (again.alerts.installation(create=False), len(found)) == (found, 32)
