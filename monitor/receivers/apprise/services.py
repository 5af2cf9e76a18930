"""Apprise's side: URLs become services, each with what it must not do switched off. Imports it only where one is opened."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from monitor.errors import ConfigError

if TYPE_CHECKING:
    import apprise

_SILENT = logging.CRITICAL + 1


def open_service(name: str, url: str) -> apprise.Apprise:
    """One service. ConfigError, without the URL, when Apprise is not there or knows no service of that form."""
    try:
        import apprise  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError:
        msg = "needs Apprise: pip install 'rankwatch[apprise]'"
        raise ConfigError(msg) from None
    # Apprise logs what it cannot read, and answers of services, which may hold what is secret.
    logging.getLogger("apprise").setLevel(_SILENT)
    service = apprise.Apprise(asset=_asset())
    if not service.add(url) or len(service) != 1:
        msg = f"{name} is no URL that Apprise can read: see its list of services for the form"
        raise ConfigError(msg)
    if "overflow=" not in url.lower():
        # By itself Apprise sends what is too long for a service, which then refuses it; the beginning says what matters.
        for each in service:
            each.overflow_mode = apprise.OverflowMode.TRUNCATE
    return service


def notify(service: apprise.Apprise, *, title: str, body: str, is_bad: bool, timeout_s: float) -> str:
    """Tell a service; what came of it: ``success``, ``failure``, ``partial``, ``nomatch`` or ``timeout``."""
    import apprise  # noqa: PLC0415 - likewise

    kind = apprise.NotifyType.FAILURE if is_bad else apprise.NotifyType.SUCCESS
    result = service.notify(
        body=body,
        title=title,
        notify_type=kind,
        body_format=apprise.NotifyFormat.TEXT,
        interpret_escapes=False,
        timeout=timeout_s,
    )
    return result.status.name.lower()


def _asset() -> apprise.AppriseAsset:
    """No plugins from files, nothing kept on disk, no redirects, no templates, no emoji or escapes made of what is told."""
    import apprise  # noqa: PLC0415 - likewise

    return apprise.AppriseAsset(
        plugin_paths=(),
        storage_mode=apprise.PersistentStoreMode.MEMORY,
        http_redirects=False,
        allow_templates=False,
        interpret_emojis=False,
        interpret_escapes=False,
        pgp_autogen=False,
        pem_autogen=False,
        secure_logging=True,
        app_id="rankwatch",
        app_desc="rankwatch",
        app_url="",
    )
