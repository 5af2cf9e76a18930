"""Notifies chat and mail services through Apprise. This receiver requires the extra ``apprise``.

A URL names each service. `docs/reference/receivers.md` describes what is retried.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, SecretStr

from monitor.boundary.deadline import Deadline
from monitor.model.errors import ConfigError, DeliveryError
from monitor.model.notifications import Message, MessageStatus, message_key
from monitor.receivers.message.content import content_of
from monitor.receivers.message.identity import DeliveredRecipients
from monitor.receivers.message.plain_text import plain_text
from monitor.receivers.receiver_options import (
    BaseReceiver,
    ReceiverEntry,
    ReceiverName,
    RepeatEvery,
    Timeout,
    repeating_treatment,
)
from monitor.texts.wording import write_extra

if TYPE_CHECKING:
    import apprise

_SILENT = logging.CRITICAL + 1

_SUCCESS = "success"
_NEVER_SENT_ENDS = frozenset({"nomatch"})


def open_service(name: str, url: str) -> apprise.Apprise:
    """Open one service. Raises ConfigError if Apprise is not installed or cannot read the URL.

    The error does not contain the URL.
    """
    try:
        import apprise  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError:
        raise ConfigError(f"Apprise is not installed: {write_extra('apprise')}") from None
    # Apprise logs URLs that it cannot read, and answers of services. Both may contain secrets.
    logging.getLogger("apprise").setLevel(_SILENT)
    # With these options, Apprise loads no plugins from files, stores nothing on disk and follows no
    # redirects. It uses no templates, and sends the text without changes.
    asset = apprise.AppriseAsset(
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
    service = apprise.Apprise(asset=asset)
    if not service.add(url) or len(service) != 1:
        raise ConfigError(
            f"{name} is not a URL that Apprise can read: use a form from Apprise's list of services"
        )
    if "overflow=" not in url.lower():
        # Cut long messages, because services refuse them. The start of a message is its most
        # important part.
        for plugin in service:
            plugin.overflow_mode = apprise.OverflowMode.TRUNCATE
    return service


def notify_service(
    service: apprise.Apprise,
    *,
    title: str,
    body: str,
    is_bad: bool,
    timeout_s: float,
    picture: bytes | None,
) -> str:
    """Notify a service. The picture is sent if the service accepts files.

    Returns ``success``, ``failure``, ``partial``, ``nomatch`` or ``timeout``.
    """
    import apprise  # noqa: PLC0415 - likewise
    from apprise.attachment.memory import AttachMemory  # noqa: PLC0415 - likewise

    attached = picture and AttachMemory(content=picture, name="chart.png", mimetype="image/png")  # type: ignore[no-untyped-call]
    kind = apprise.NotifyType.FAILURE if is_bad else apprise.NotifyType.SUCCESS
    result = service.notify(
        body=body,
        title=title,
        notify_type=kind,
        body_format=apprise.NotifyFormat.TEXT,
        attach=attached,
        interpret_escapes=False,
        timeout=timeout_s,
    )
    return result.status.name.lower()


def _check_urls(urls: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    # Let Apprise read each URL now, so that a wrong URL is reported as an error of the
    # configuration.
    for name, url in urls.items():
        try:
            open_service(name, url.get_secret_value())
        except ConfigError as error:
            raise ValueError(str(error)) from None
    return urls


class AppriseOptions(ReceiverEntry):
    """Notify services for which rankwatch has no receiver, through Apprise.

    This receiver requires the extra ``apprise``.
    """

    urls: Annotated[Mapping[ReceiverName, SecretStr], AfterValidator(_check_urls)] = Field(
        min_length=1, max_length=20, examples=[{"phones": "ntfys://ntfy.example.com/${NTFY_TOPIC}"}]
    )
    """The services to notify. The key of each entry is a name that messages show, and the value is
    the service's URL for Apprise. To read the URL from a file, write `NAME_file`. The URLs are
    secrets and are never shown."""
    timeout: Timeout = timedelta(seconds=20)
    """How long it may take to send one message to all services."""
    repeat_every: RepeatEvery = timedelta(hours=24)


class AppriseReceiver(BaseReceiver):
    """The services of one entry."""

    def __init__(self, options: AppriseOptions, name: str, *, external_url: str) -> None:
        treatment = repeating_treatment(options.repeat_every, shows_pictures=True)
        super().__init__(name, options, external_url, treatment)
        self._services = {}
        for service, url in options.urls.items():
            self._services[service] = open_service(service, url.get_secret_value())
        self._delivered = DeliveredRecipients()

    def send(self, message: Message, *, now: datetime) -> None:
        """Send a message to the services that do not have it yet.

        Raises DeliveryError if a service did not accept it.
        """
        key = message_key(message, now)
        names = tuple(self._services)
        outcomes = self._notify_each(message, self._delivered.without(key, names))
        failed = {name: outcome for name, outcome in outcomes.items() if outcome != _SUCCESS}
        self._delivered.add(key, outcomes.keys() - failed.keys())
        if not failed:
            return
        ended = ", ".join(f"{name} ended with {outcome}" for name, outcome in failed.items())
        accepted = len(names) - len(failed)
        raise DeliveryError(
            f"{self.name}: {ended}; {accepted} of {len(names)} services have the message: "
            "a later attempt may succeed",
            permanent=False,
            may_be_known=accepted > 0 or not _NEVER_SENT_ENDS.issuperset(failed.values()),
            of_message=message.picture is not None,
        )

    def _notify_each(self, message: Message, names: Sequence[str]) -> dict[str, str]:
        """Notify one service after another until the deadline. Returns the outcome by name."""
        content = content_of(message, self.external_url)
        title = defuse(content.title)
        body = defuse(plain_text(content, has_title=False))
        timeout_s = self.timeout_s
        if message.picture:
            # If a service refuses the picture, it is notified again without a picture. So half of
            # the time is kept for a second attempt.
            timeout_s /= 2
        deadline = Deadline.after(timeout_s)
        outcomes = {}
        for name in names:
            if deadline.is_past:
                outcomes[name] = "timeout"
                continue
            outcomes[name] = notify_service(
                self._services[name],
                title=title,
                body=body,
                is_bad=message.status is not MessageStatus.RESOLVED,
                timeout_s=deadline.remaining_s,
                picture=message.picture,
            )
        return outcomes


def defuse(text: str) -> str:
    """Add a zero-width blank after each @ and <, so that the text has no mentions or links."""
    return re.sub(r"[@<](?=\S)", "\\g<0>\u200b", text)
