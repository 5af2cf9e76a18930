"""A URL whose password is not percent-encoded is refused, and no part of the password is shown."""

from pathlib import Path

import pytest

from monitor.boundary.redaction import require_encoded_login
from monitor.model.errors import ConfigError
from settings.minimal import load_text

URLS = (Path(__file__).parent / "settings/passwords.yaml").read_text()


def refused(password):
    with pytest.raises(ConfigError) as caught:
        load_text(URLS.replace("PASSWORD", password))
    return str(caught.value).splitlines()


def test_a_password_that_is_not_encoded_is_refused_in_every_url_but_a_file_may_have_an_at_sign():
    lines = refused("p@ss/w%rd")
    assert len(lines) == URLS.count("PASSWORD")
    for password in ("a#b", "x:y@z", "q?r", "12/3"):
        assert refused(password) == lines
    require_encoded_login("sqlite:////home/me@here/recs.db")
