"""What pages and the API show of a source's options: no path of an address, no secret."""

import json

from monitor.sources.http import OAuth2Options


def test_the_address_of_tokens_is_not_shown():
    options = OAuth2Options.model_validate({
        "token_url": "https://login.example.com/tenant-canary/token?key=canary",
        "client_id": "me",
        "client_secret": "canary",
    })  # fmt: skip
    shown = f"{json.dumps(options.model_dump(mode='json'))} {options!r}"

    assert "canary" not in shown
