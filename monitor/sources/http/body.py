"""What is posted: JSON in whose texts the slot, k and the users of a request are filled in."""

import json
from collections.abc import Callable, Sequence

from monitor.model.runs import PullRequest
from monitor.slot_templates import fill_slot, placeholders


def fill_body(body: object, request: PullRequest) -> object:
    """The body with everything filled in but users."""

    def fill(text: str) -> object:
        return (
            request.k
            if text == "{k}"
            else fill_slot(text, request.slot).replace("{k}", str(request.k))
        )

    return _map_texts(body, fill)


def body_for_user(body: object, user: str) -> object:
    """The body that asks for this user."""
    return _map_texts(
        body, lambda text: int(user) if text == "{user:int}" else text.replace("{user}", user)
    )


def body_for_batch(body: object, users: Sequence[str]) -> object:
    """The body that asks for these users: an array of one element that names ``{user}`` has that element once a user."""
    if (
        isinstance(body, list)
        and len(body) == 1
        and "user" in placeholders(json.dumps(body, default=str))
    ):
        return [body_for_user(body[0], user) for user in users]
    if isinstance(body, list):
        return [body_for_batch(value, users) for value in body]
    if isinstance(body, dict):
        return {key: body_for_batch(value, users) for key, value in body.items()}
    if isinstance(body, str):
        if body == "{users:int}":
            return list(map(int, users))
        return {"{users}": list(users), "{count}": len(users)}.get(
            body, body.replace("{users}", ",".join(users))
        )
    return body


def _map_texts(body: object, fill: Callable[[str], object]) -> object:
    if isinstance(body, dict):
        return {key: _map_texts(value, fill) for key, value in body.items()}
    if isinstance(body, list):
        return [_map_texts(value, fill) for value in body]
    return fill(body) if isinstance(body, str) else body
