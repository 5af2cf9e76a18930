import pytest
from sqlalchemy import make_url

from monitor.redaction import require_whole_password, without_secrets

URL = make_url("postgresql://me:hun%2Fter2@db/recs?sslpassword=one&options=x+y&options=two&sslmode=require")


@pytest.mark.parametrize("secret", ["hun/ter2", "hun%2Fter2", "one", "x y", "x%20y", "x+y", "two"])
def test_what_a_driver_said_is_shown_without_the_secrets_of_its_url_in_whatever_form(secret: str) -> None:
    assert without_secrets(f"role me: {secret!r} is refused", URL) == "role me: '***' is refused"


def test_a_text_without_secrets_stays_as_it_is() -> None:
    assert without_secrets("role me of recs at db is required", URL) == "role me of recs at db is required"


def test_a_password_whose_rest_would_be_taken_for_the_host_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="write special characters there as %XX") as caught:
        require_whole_password(make_url("postgresql://me:hun@ter2@db/recs"))
    assert "ter2" not in str(caught.value)
    require_whole_password(make_url("postgresql://me:hun%40ter2@db/recs"))
