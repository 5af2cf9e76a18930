"""A report on stored runs: the pages of a daemon in one file.

This module stores nothing. It asks sources only for titles, as the command `show` does.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from monitor.model.errors import ConfigError
from monitor.pipeline.item_titles import pull_titles
from monitor.service.clock import SystemClock
from monitor.service.composition import open_comparison
from monitor.service.title_cache import TitleCache
from monitor.settings.configuration import Settings
from monitor.settings.loader import load_settings
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
    """Return the report as HTML, see `make_report`."""
    watched = {}
    comparisons = {}
    if name in settings.comparisons_by_name:
        watched[name] = open_comparison(settings.comparisons_by_name[name], settings)
        comparisons[name] = watched[name].comparison
    with opened_store(settings.database) as store:
        site = Site(
            store=store,
            clock=SystemClock(),
            comparisons=comparisons,
            receivers=settings.receiver_names,
            titles=partial(TitleCache().find, watched),
            is_reachable=settings.has_public_runbooks,
        )
        return make_report(site, name, slot=slot, since=since, until=until)


def titles_of(
    config: Path,
    name: str,
    slot: datetime,
    items: Collection[str],
) -> Mapping[str, str]:
    """Return the titles of items in a stored run.

    Returns no titles if the configuration is unusable or has no source of titles.
    """
    with suppress(ConfigError):
        options = load_settings(config).comparisons_by_name.get(name)
        if options is not None and options.item_titles is not None:
            titles, _ = pull_titles(open_item_titles(options.item_titles), slot, items)
            return titles
    return {}
