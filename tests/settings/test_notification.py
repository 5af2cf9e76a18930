"""Routes, fallbacks, maintenance and dry runs of a configuration, as the notification policy that they make."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.errors import ConfigError
from monitor.settings.translation import policy_of
from settings.minimal import Load

NOTIFICATION = """
receivers:
  - webhook: {url: "http://127.0.0.1:1/x", name: hook}
  - alertmanager: {urls: ["http://127.0.0.1:2", "http://127.0.0.1:3"], name: am}
routes:
  - {match: [severity=critical, "comparison=~f.*"], receivers: [am], continue: true}
  - {receivers: [hook]}
fallbacks: {am: hook}
maintenance:
  - {name: retraining, match: [comparison=feed], cron: "0 2 * * *", timezone: Europe/Berlin, for: 2h}
"""


def test_a_shared_name_stands_for_every_peer(load_text: Load, minimal: str) -> None:
    policy = policy_of(load_text(minimal + NOTIFICATION))

    first, second = policy.routes
    assert (sorted(first.receivers), first.goes_on, sorted(second.receivers)) == (["am-0", "am-1"], True, ["hook"])
    assert [str(matcher) for matcher in first.matchers] == ["severity=critical", "comparison=~f.*"]
    assert policy.fallbacks == {"am-0": "hook", "am-1": "hook"}


@pytest.mark.parametrize(("hour", "is_open"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_maintenance_window_is_open_from_its_slot_for_as_long_as_it_lasts(
    load_text: Load, minimal: str, hour: int, *, is_open: bool
) -> None:
    (window,) = policy_of(load_text(minimal + NOTIFICATION)).windows
    now = datetime(2024, 1, 8, hour, 30, tzinfo=UTC)  # half an hour past the full hour after that in Berlin

    assert window.ends_at(now) == (now.replace(hour=1, minute=0) + timedelta(hours=2) if is_open else None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ("receivers: [hook]", "receivers: [hok]"),
            r"routes\[1\]\.receivers\[0\]: no receiver is called hok: there are am, am-0",
        ),
        (("{am: hook}", "{am: mail}"), r"fallbacks\.am: no receiver is called mail"),
        (("{am: hook}", "{am: am}"), r"fallbacks\.am: cannot stand in for itself"),
        (("name: hook", "name: am-1"), r"receivers\[1\]\.alertmanager\.name: another receiver has this name"),
    ],
)
def test_names_of_receivers_are_checked(load_text: Load, minimal: str, change: tuple[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_text(minimal + NOTIFICATION.replace(*change))
