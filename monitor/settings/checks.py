"""What several settings must agree on. Each check reads what could be read, so that all problems are found at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from monitor.receivers import PingOptions, ReceiverOptions
from monitor.settings.comparison_checks import check_comparison
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import RetentionOptions, Settings
from monitor.settings.excerpt import split_address
from monitor.settings.notification_options import receivers_by_name
from monitor.settings.problems import NAME_TAKEN, KeyPath, Problem, duplicates, within
from monitor.settings.validation import Partial, valid_options
from monitor.settings.value_types import is_loopback
from monitor.settings.web_config import WebConfig


def check_settings(raw: object, context: Mapping[str, object], access: WebConfig) -> Iterator[Problem]:
    """Problems between settings, whether or not each of them is right by itself."""
    settings = Partial(Settings, raw, context)
    comparisons = [(n, Partial(ComparisonOptions, item, context)) for n, item in settings.items("comparisons")]
    yield from _listen(settings, access)
    yield from _retention(Partial(RetentionOptions, settings.raw.get("retention"), context))
    yield from duplicates(
        ((("comparisons", n, "name"), each.get("name")) for n, each in comparisons),
        NAME_TAKEN.format("comparison"),
    )
    yield from _receivers(settings, context)
    yield from _pings(settings, context, {each.get("name") for _, each in comparisons})
    for n, comparison in comparisons:
        yield from within(("comparisons", n), check_comparison(comparison, context))


def _listen(settings: Partial, access: WebConfig) -> Iterator[Problem]:
    listen = settings.get("listen")
    if listen is None or settings.get("listen_without_authentication") is not False or access.problems:
        return
    if is_loopback(split_address(listen)[0]) or (access.options is not None and access.options.authenticates):
        return
    has_file = settings.has("web_config_file")
    missing = "web_config_file names no users: TLS alone keeps nobody out" if has_file else "there is no authentication"
    yield Problem(("listen",), f"can be reached from other machines, and {missing}: {_ADVICE}")


_ADVICE = (
    "use 127.0.0.1, or give a web_config_file with basic_auth_users or client_auth_type: RequireAndVerifyClientCert, "
    "or set listen_without_authentication: true"
)


def _retention(retention: Partial) -> Iterator[Problem]:
    runs = retention.get("runs")
    for key in ("scores", "lists", "evidence", "summaries"):
        kept = retention.get(key)
        if retention.has(key) and runs is not None and kept is not None and kept > runs:
            yield Problem(("retention", key), "must not be longer than retention.runs: it goes with its run")


def _receivers(settings: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    """Names of receivers that occur twice, and names in routes and fallbacks that no receiver has."""
    entries = [valid_options(ReceiverOptions, item, context) for _, item in settings.items("receivers")]
    found = [(n, entry) for n, entry in enumerate(entries) if entry is not None]
    named = ((("receivers", n, entry.kind, "name"), name) for n, entry in found for name in entry.receiver_names)
    yield from duplicates(named, NAME_TAKEN.format("receiver"))
    if None not in entries:
        yield from _references(settings, receivers_by_name([entry for _, entry in found]))


def _references(settings: Partial, known: Collection[str]) -> Iterator[Problem]:
    named: list[tuple[KeyPath, object]] = []
    for n, item in settings.items("routes"):
        found = item.get("receivers") if isinstance(item, dict) else None
        named.extend((("routes", n, "receivers", m), name) for m, name in enumerate(found if isinstance(found, list) else ()))
    fallbacks = settings.get("fallbacks") or {}
    named.extend((("fallbacks", name), each) for name, to in fallbacks.items() for each in (name, to))
    choices = f"there are {', '.join(sorted(known))}" if known else "there are none"
    for path, name in named:
        if isinstance(name, str) and name not in known:
            yield Problem(path, f"no receiver is called {name}: {choices}")
    yield from (Problem(("fallbacks", name), "cannot stand in for itself") for name, to in fallbacks.items() if name == to)


def _pings(settings: Partial, context: Mapping[str, object], known: set[str | None]) -> Iterator[Problem]:
    for n, item in settings.items("pings"):
        if (entry := valid_options(PingOptions, item, context)) is not None:
            for place, name in enumerate(entry.comparisons or ()):
                if name not in known and None not in known:
                    yield Problem(("pings", n, "comparisons", place), f"there is no comparison {name!r}")
