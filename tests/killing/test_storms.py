"""Some kills with receivers that refuse, cut and answer late.

`make bench ARGS=kills` plays a hundred on each database.
"""

import pytest

from killing.storms import Damage, play_storm

pytestmark = pytest.mark.integration


def judge(damage: Damage) -> None:
    assert damage.harm == {}
    assert damage.messages > 0


def test_nothing_is_lost_twice_half_or_under_two_keys_on_sqlite(tmp_path):
    judge(play_storm(f"sqlite:///{tmp_path / 'rankwatch.db'}", tmp_path, kills=5, seed=1))


def test_nothing_is_lost_twice_half_or_under_two_keys_on_postgresql(postgres_server, tmp_path):
    with postgres_server.database() as url:
        judge(play_storm(url, tmp_path, kills=5, seed=2))
