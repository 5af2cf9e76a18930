"""The shop of the demo, and its web server.

The server answers as the two recommenders, and receives webhooks in place of on-call.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from monitor.model.arrays import Floats
from monitor.model.immutable import immutable
from monitor.model.instants import utc_now
from monitor.model.rankings import Arm
from monitor.web.server import WebServer

COUNTRIES = ("DE", "FR", "UK", "US")
ACTIVITIES = ("low", "mid", "high")
BROKEN_COUNTRY = "DE"
DEPTH = 20
"""The number of items in each list."""

ItemLists = dict[str, list[str]]
"""The item ids of each user, best first."""

_COUNTRY_SHARES = (0.25, 0.2, 0.2, 0.35)
_ACTIVITY_SHARES = (0.3, 0.45, 0.25)
_GENRES = 12
_MODEL_ERROR = np.array([0.36, 0.28, 0.21])
"""Standard deviation of a model's error in the logarithm of appeal, for each activity of users."""
_TRAINING_ERROR = 0.1
"""Standard deviation of the error that each training adds to the logarithm of appeal."""

DEMO_HOST = "127.0.0.1"


class Shop:
    """Users, items and two models.

    The lists of a day depend only on the seed and the day, not on the days before.
    """

    def __init__(self, *, users: int = 1500, items: int = 800, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        self.ids = [f"user-{number:05d}" for number in range(users)]
        self.countries = random.choice(COUNTRIES, size=users, p=_COUNTRY_SHARES)
        activities = random.choice(len(ACTIVITIES), size=users, p=_ACTIVITY_SHARES)
        self.activities = np.array(ACTIVITIES)[activities]
        appeal = random.dirichlet(np.full(_GENRES, 0.12), size=users) @ _appeal_by_genre(
            random, items
        )
        self._popular = np.argsort(-appeal.mean(axis=0))[:DEPTH]
        error = _MODEL_ERROR[activities][:, None]
        self._models = [
            (arm, np.log(appeal) + error * random.standard_normal(appeal.shape)) for arm in Arm
        ]
        self._items = np.array([f"item-{number:03d}" for number in range(items)])
        self._seed = seed

    def lists(self, day: int, *, is_broken: bool) -> dict[Arm, ItemLists]:
        """Train both models on this day. Return the best items of each model for every user.

        If ``is_broken``, a join of the candidate is broken, and it finds no purchases of users in
        one country. It treats these users as new users, and recommends popular items to them.
        """
        random = np.random.default_rng((self._seed, day))
        lists = {}
        for arm, scores in self._models:
            trained = scores + _TRAINING_ERROR * random.standard_normal(scores.shape)
            best = np.argsort(-trained, axis=1)[:, :DEPTH]
            if is_broken and arm is Arm.CANDIDATE:
                best[self.countries == BROKEN_COUNTRY] = self._popular
            lists[arm] = dict(zip(self.ids, self._items[best].tolist(), strict=True))
        return lists


def _appeal_by_genre(random: np.random.Generator, items: int) -> Floats:
    """Return the appeal of items to users that like only one genre, as an array (genres, items).

    Each genre has a few popular items and many unpopular ones.
    """
    popularity = random.permutation(1.0 / (10.0 + np.arange(items)) ** 0.8)
    fit = random.gamma(1.0, size=(_GENRES, items)) * 0.05
    # Every item belongs to one genre, and fits every other genre a little.
    fit[random.integers(_GENRES, size=items), np.arange(items)] += 1.0
    appeal: Floats = fit * popularity
    return appeal


@contextmanager
def serve_routes(*routes: BaseRoute, host: str = DEMO_HOST, port: int = 0) -> Iterator[str]:
    """Serve the routes until the block ends, and yield the address. Port 0 means any free port.

    Raises ConfigError if the address cannot be used.
    """
    server = WebServer(Starlette(routes=routes), host, port)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


class Recommenders:
    """The two recommenders of a shop, under ``/baseline`` and ``/candidate``.

    They begin with the lists of day 0.
    """

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.retrain(0, is_broken=False)

    def retrain(self, day: int, *, is_broken: bool) -> None:
        """Train both models on this day, and serve their lists."""
        # Assign the lists of both arms at once, so that no request sees a mixture of two trainings.
        self.lists = self.shop.lists(day, is_broken=is_broken)

    @property
    def route(self) -> Route:
        """The route of the lists: ``/{arm}/api/recommend/{user}``. The best item comes first."""
        return Route("/{arm}/api/recommend/{user}", self._recommend)

    async def _recommend(self, request: Request) -> Response:
        items = self.lists.get(request.path_params["arm"], {}).get(request.path_params["user"])
        if items is None:
            return JSONResponse({"error": "no such user"}, 404)
        return JSONResponse(items)


@immutable
class ReceivedAlert:
    """An alert that a webhook reported. Its ``status`` is ``firing`` or ``resolved``."""

    at: datetime
    status: str
    alert: str
    segment: str


class OnCall:
    """Receives webhooks and collects their alerts, oldest first."""

    def __init__(self) -> None:
        self._by_firing: dict[tuple[str, str], ReceivedAlert] = {}

    @property
    def received(self) -> tuple[ReceivedAlert, ...]:
        """All alerts so far. Any thread may read them."""
        return tuple(self._by_firing.copy().values())

    @property
    def route(self) -> Route:
        """The route for webhooks: ``/on-call/page``."""
        return Route("/on-call/page", self._take, methods=["POST"])

    async def _take(self, request: Request) -> Response:
        now = utc_now()
        # A message lists all firing alerts, so the same alert arrives several times. Keep it only
        # if its status is new.
        for alert in json.loads(await request.body())["alerts"]:
            status = alert["status"]
            labels = alert["labels"]
            new = ReceivedAlert(
                at=now,
                status=status,
                alert=labels["alertname"],
                segment=labels["segment"],
            )
            self._by_firing.setdefault((alert["annotations"]["dedup_key"], status), new)
        return Response(status_code=204)
