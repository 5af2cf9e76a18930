"""Makes the JSON body of a request from a template: fills in the slot, k and the users."""

import json
from collections.abc import Callable, Sequence

from monitor.boundary.slot_templates import fill_slot, placeholders
from monitor.model.runs import PullRequest


def fill_body(body: object, request: PullRequest) -> object:
    """Fill in the slot and k. The placeholders for users stay."""

    def fill(template: str) -> object:
        if template == "{k}":
            return request.k
        return fill_slot(template, request.slot).replace("{k}", str(request.k))

    return _map_texts(body, fill)


def body_for_user(body: object, user: str) -> object:
    """Fill in one user."""

    def fill(template: str) -> object:
        if template == "{user:int}":
            return int(user)
        return template.replace("{user}", user)

    return _map_texts(body, fill)


def body_for_batch(body: object, users: Sequence[str]) -> object:
    """Fill in many users.

    If the only element of an array names ``{user}``, it is repeated for each user.
    """
    if isinstance(body, list):
        if len(body) == 1 and "user" in placeholders(json.dumps(body, default=str)):
            return [body_for_user(body[0], user) for user in users]
        return [body_for_batch(value, users) for value in body]
    if isinstance(body, dict):
        return {key: body_for_batch(value, users) for key, value in body.items()}
    if isinstance(body, str):
        return _fill_users(body, users)
    return body


def _fill_users(template: str, users: Sequence[str]) -> object:
    if template == "{users}":
        return list(users)
    if template == "{users:int}":
        return list(map(int, users))
    if template == "{count}":
        return len(users)
    return template.replace("{users}", ",".join(users))


def _map_texts(body: object, fill: Callable[[str], object]) -> object:
    if isinstance(body, dict):
        return {key: _map_texts(value, fill) for key, value in body.items()}
    if isinstance(body, list):
        return [_map_texts(value, fill) for value in body]
    if isinstance(body, str):
        return fill(body)
    return body
