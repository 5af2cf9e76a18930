import pytest
from sqlalchemy import make_url

from monitor.boundary.redaction import require_whole_password


def test_a_password_whose_rest_would_be_taken_for_the_host_is_refused_without_showing_it():
    with pytest.raises(ValueError, match="write special characters there as %XX") as caught:
        require_whole_password(make_url("postgresql://me:hun@ter2@db/recs"))
    assert "ter2" not in str(caught.value)
    require_whole_password(make_url("postgresql://me:hun%40ter2@db/recs"))
