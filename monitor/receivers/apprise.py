"""Apprise, an extra: chat and mail services without a receiver of their own, each by a URL.

README.md says what is retried.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, SecretStr

from monitor.deadline import Deadline
from monitor.errors import ConfigError, DeliveryError
from monitor.model.notifications import Message, MessageStatus, message_key
from monitor.receivers.fields import ReceiverEntry, ReceiverName, RepeatEvery, Timeout, repeated
from monitor.receivers.message.content import content_of
from monitor.receivers.message.identity import DeliveredRecipients
from monitor.receivers.message.plain_text import plain_text

if TYPE_CHECKING:
    import apprise

_SILENT = logging.CRITICAL + 1

_SUCCESS = "success"
_NEVER_SENT = frozenset({"nomatch"})


def open_service(name: str, url: str) -> apprise.Apprise:
    """One service. ConfigError, without the URL, when Apprise is not there or knows no service of that form."""
    try:
        import apprise  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError:
        raise ConfigError("needs Apprise: pip install 'rankwatch[apprise]'") from None
    # Apprise logs what it cannot read, and answers of services, which may hold what is secret.
    logging.getLogger("apprise").setLevel(_SILENT)
    # No plugins from files, nothing kept on disk, no redirects, no templates, no emoji or escapes
    # made of the text.
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
            f"{name} is no URL that Apprise can read: see its list of services for the form"
        )
    if "overflow=" not in url.lower():
        # By itself Apprise sends what is too long for a service, which then refuses it; what
        # matters comes first.
        for each in service:
            each.overflow_mode = apprise.OverflowMode.TRUNCATE
    return service


def notify_service(
    service: apprise.Apprise,
    *,
    title: str,
    body: str,
    is_bad: bool,
    timeout_s: float,
    picture: bytes | None = None,
) -> str:
    """Notify a service, with a picture if it takes files: ``success``, ``failure``, ``partial``, ``nomatch`` or ``timeout``."""
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
    # Apprise reads each of them now, so that what it cannot read is an error of the configuration.
    for name, url in urls.items():
        try:
            open_service(name, url.get_secret_value())
        except ConfigError as error:
            raise ValueError(str(error)) from None
    return urls


class AppriseOptions(ReceiverEntry):
    """Notify services that have no receiver of their own here through Apprise.

    Needs the extra ``apprise``.
    """

    urls: Annotated[Mapping[ReceiverName, SecretStr], AfterValidator(_check_urls)] = Field(
        min_length=1,
        max_length=20,
        description=(
            "Services: a name for messages, and one of Apprise's URLs, or `NAME_file`. "
            "Secrets, never shown."
        ),
        examples=[{"phones": "ntfys://ntfy.example.com/${NTFY_TOPIC}"}],
    )
    timeout: Timeout = Field(
        timedelta(seconds=20), description="How long all of them together may take for one message."
    )
    repeat_every: RepeatEvery = timedelta(hours=24)


class AppriseReceiver:
    """All URLs of one entry."""

    def __init__(self, options: AppriseOptions, name: str, *, external_url: str) -> None:
        self._external_url, self._timeout_s = external_url, options.timeout.total_seconds()
        self.name, self.treatment = name, repeated(options.repeat_every, shows_pictures=True)
        self._services = {
            name: open_service(name, url.get_secret_value()) for name, url in options.urls.items()
        }
        self._delivered = DeliveredRecipients()
        self._refusing: set[str] = set()

    def send(self, message: Message, *, now: datetime) -> None:
        """Send a message to the services that do not have it yet.

        DeliveryError when one of them did not accept it.
        """
        key, names = message_key(message, now), tuple(self._services)
        waiting = self._delivered.without(key, names)
        outcomes = self._notify_each(message, waiting)
        self._delivered.add(
            key, [name for name, outcome in outcomes.items() if outcome == _SUCCESS]
        )
        failed = {name: outcome for name, outcome in outcomes.items() if outcome != _SUCCESS}
        # What fails with a picture gets none, until it fails without one too.
        self._refusing ^= failed.keys() if message.picture else self._refusing & failed.keys()
        if failed:
            ended = ", ".join(f"{name} ended with {outcome}" for name, outcome in failed.items())
            taken = len(names) - len(failed)
            may_be_known = taken > 0 or not _NEVER_SENT.issuperset(failed.values())
            msg = (
                f"{self.name}: {ended}; {taken} of {len(names)} services have the message, and "
                "it will be tried again"
            )
            raise DeliveryError(
                msg,
                permanent=False,
                may_be_known=may_be_known,
                of_message=message.picture is not None,
            )

    def _notify_each(self, message: Message, waiting: Sequence[str]) -> dict[str, str]:
        """The outcome for each, one after the other until the time is over."""
        content = content_of(message, self._external_url)
        title, body = defuse(content.title), defuse(plain_text(content, has_title=False))
        # With a picture half of the time: who does not take it is notified once more without.
        deadline = Deadline.after(self._timeout_s / (2 if message.picture else 1))
        is_bad = message.status is not MessageStatus.RESOLVED
        outcomes = {}
        for name in waiting:
            outcomes[name] = "timeout" if deadline.is_past else notify_service(
                self._services[name], title=title, body=body, is_bad=is_bad, timeout_s=deadline.remaining_s,
                picture=None if name in self._refusing else message.picture,
            )  # fmt: skip
        return outcomes


def defuse(text: str) -> str:
    """Text in which no chat service finds a mention or a link of its own: a blank of no width follows each @ and each <."""
    return re.sub(r"[@<](?=\S)", "\\g<0>\u200b", text)
