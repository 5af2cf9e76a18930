"""One arm of the demo as a web service: ``GET /api/recommend/{user}?n=10`` answers a JSON list of item ids, best first."""

from __future__ import annotations

from aiohttp import web

from monitor.demo.shop import DEPTH, Lists

_DEFAULT_N = 10


class Recommender:
    """Serves the lists last put into ``lists``; they are replaced as a whole, so no answer mixes two trainings."""

    def __init__(self, lists: Lists) -> None:
        self.lists = lists

    def app(self) -> web.Application:
        """The web application."""
        app = web.Application()
        app.router.add_get("/api/recommend/{user}", self._recommend)
        return app

    async def _recommend(self, request: web.Request) -> web.Response:
        text = request.query.get("n", str(_DEFAULT_N))
        n = int(text) if text.isdecimal() and len(text) <= len(str(DEPTH)) else 0
        if not 1 <= n <= DEPTH:
            return web.json_response({"error": f"n must be a whole number from 1 to {DEPTH}"}, status=400)
        items = self.lists.get(request.match_info["user"])
        if items is None:
            return web.json_response({"error": "no such user"}, status=404)
        return web.json_response(items[:n])
