"""A report over stored runs: pages of a daemon, without one.

Stores nothing; asks sources for titles alone, as `show` does.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from monitor.errors import ConfigError
from monitor.pipeline.pull import pull_titles
from monitor.service.clock import SystemClock
from monitor.service.composition import TitleCache, Wiring, watch
from monitor.settings.configuration import Settings
from monitor.settings.loader import load_settings
from monitor.settings.translation import policy_of
from monitor.sources import open_item_titles
from monitor.storage import opened_store
from monitor.web.pages.report import make_report
from monitor.web.pages.site import Site


def report_of(
    settings: Settings,
    name: str,
    *,
    slot: datetime | None,
    since: datetime | None,
    until: datetime | None,
) -> str:
    """The report as HTML, see `make_report`."""
    watched = {
        each.name: watch(each, settings) for each in settings.comparisons if each.name == name
    }
    wiring = Wiring(settings=settings, watched=watched, receivers=(), policy=policy_of(settings))
    with opened_store(settings.database) as store:
        site = Site(
            store=store,
            clock=SystemClock(),
            comparisons=lambda: {
                each.comparison.name: each.comparison for each in watched.values()
            },
            titles=TitleCache(lambda: wiring),
        )
        return make_report(site, name, slot=slot, since=since, until=until)


def titles_of(config: Path, name: str, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
    """Titles of items of a stored run.

    None where the configuration cannot be used, or does not say where they stand.
    """
    with suppress(ConfigError):
        for options in load_settings(config).comparisons:
            if options.name == name and options.item_titles is not None:
                return pull_titles(open_item_titles(options.item_titles), slot, items)[0]
    return {}
