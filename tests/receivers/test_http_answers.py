from datetime import timedelta
from email.utils import format_datetime

import pytest

from factories import SLOT
from monitor.errors import DeliveryError
from monitor.receivers.http_client import HttpAnswer, require_accepted, retry_after_s


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_2xx_is_taken(status: int) -> None:
    require_accepted(HttpAnswer(status=status, headers={}), who="hook", now=SLOT)


PERMANENT = dict.fromkeys([400, 401, 402, 403, 404, 405, 410, 413, 414, 422], True)
PASSING = dict.fromkeys([301, 302, 307, 308, 408, 425, 429, 500, 502, 503, 504, 599], False)


@pytest.mark.parametrize(("status", "is_permanent"), [*PERMANENT.items(), *PASSING.items()])
def test_each_other_status_is_permanent_or_may_pass(status: int, is_permanent: bool) -> None:
    with pytest.raises(DeliveryError) as caught:
        require_accepted(HttpAnswer(status=status, headers={"Retry-After": "7"}), who="hook", now=SLOT)
    assert (caught.value.permanent, caught.value.retry_after_s) == (is_permanent, 7.0)
    assert caught.value.may_be_known == (status >= 500)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "hook answered 401 Unauthorized: check its credentials"),
        (404, "hook answered 404 Not Found: check its URL"),
        (302, "hook answered 302 Found: redirects are not followed: write the final URL"),
        (503, "hook answered 503 Service Unavailable: it will be tried again"),
        (599, "hook answered 599: it will be tried again"),
    ],
)
def test_the_message_says_what_to_do(status: int, said: str) -> None:
    with pytest.raises(DeliveryError) as caught:
        require_accepted(HttpAnswer(status=status, headers={}), who="hook", now=SLOT)
    assert (str(caught.value), caught.value.retry_after_s) == (said, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 1.5 ", 1.5),
        ("-3", 0.0),
        (format_datetime(SLOT + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(SLOT - timedelta(days=1), usegmt=True), 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_or_nothing(text: str | None, seconds: float | None) -> None:
    assert retry_after_s(text, SLOT) == seconds


def test_what_the_body_says_stands_behind_the_advice() -> None:
    with pytest.raises(DeliveryError, match=r"^hook answered 404 Not Found: check its URL \(no_service\)$"):
        require_accepted(HttpAnswer(status=404, headers={}), who="hook", now=SLOT, reason="no_service")


@pytest.mark.parametrize(("status", "is_bounded", "of_message"), [(413, False, True), (413, True, False), (404, False, False)])
def test_a_message_of_bounded_size_is_not_sent_in_parts(status: int, is_bounded: bool, of_message: bool) -> None:
    with pytest.raises(DeliveryError) as caught:
        require_accepted(HttpAnswer(status=status, headers={}), who="hook", now=SLOT, is_bounded=is_bounded)
    assert caught.value.of_message is of_message
