"""Draws pictures for messages. A picture shows the chart of a comparison as PNG.

A child process draws the pictures, because resvg stops all other threads of its process.
"""

import re
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache, partial
from importlib.util import find_spec
from threading import Lock

import structlog
from markupsafe import Markup

from monitor.alerts.incidents import find_leads
from monitor.alerts.leading_changes import weight_of
from monitor.boundary.deadline import call_in_time
from monitor.boundary.foreign_errors import describe_error
from monitor.charts.svg import element, read_style
from monitor.charts.time_chart import CHART_HEIGHT, CHART_WIDTH, PLOT_LEFT
from monitor.model.notifications import Message
from monitor.model.rules import Comparison
from monitor.service.clock import SystemClock
from monitor.storage import SqlStore
from monitor.texts.wording import write_extra
from monitor.web.pages.comparison import read_comparison_page
from monitor.web.pages.rendering import series_chart
from monitor.web.pages.site import PageRequest, Site

PICTURE_WAIT_S = 5.0
"""How long a message waits for its picture."""
REST_S = 300.0
"""The pause after a failure. It is long, because many alerts may fire at the same time."""
_LARGE = (
    "svg text, svg text.tick { font: 19px Arimo, sans-serif; } svg .line { stroke-width: 2.5; }"
)
_MEDIA_QUERY = re.compile(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
_LIBRARIES = ("fontpkg_arimo", "PIL", "resvg_py")
_TO_PNG = """
import io, sys, fontpkg_arimo, resvg_py
from PIL import Image
svg, fonts = sys.stdin.buffer.read().decode(), [str(fontpkg_arimo.ROOT / "files")]
drawn = io.BytesIO(resvg_py.svg_to_bytes(svg, background="#fff", font_dirs=fonts))
image = Image.open(drawn).convert("RGB").quantize(64, dither=0)
image.save(sys.stdout.buffer, "PNG", optimize=True)
"""

log = structlog.get_logger(__name__)


class MessagePictures:
    """Draws a message's picture for the first receiver, and reuses it for the other receivers.

    Threads may share it.
    """

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._drawing = Lock()
        self._again_at_s = float("-inf")
        if not all(map(find_spec, _LIBRARIES)):
            self._again_at_s = float("inf")
            log.info("messages have no pictures", advice=write_extra("pictures"))

    def draw(self, comparisons: Mapping[str, Comparison], message: Message) -> bytes | None:
        """Return the chart of the heaviest change as PNG: 960 by 322 pixels, at most 30 kB.

        Returns None if there are no data, if the extra is not installed, or after a failure.
        """
        if time.monotonic() < self._again_at_s:
            return None
        try:
            draw = partial(self._draw, comparisons, message)
            return call_in_time(draw, timedelta(seconds=PICTURE_WAIT_S), name="picture")
        except Exception as error:  # noqa: BLE001 - the message matters more
            self._again_at_s = time.monotonic() + REST_S
            log.warning(
                "messages have no pictures for a while",
                reason=describe_error(error),
                for_s=REST_S,
            )
            return None

    def _draw(self, comparisons: Mapping[str, Comparison], message: Message) -> bytes | None:
        """Do what `draw` does, without a time limit."""
        name = message.comparison
        lead = min(find_leads(message.changes or message.firing), key=weight_of)
        latest = self._store.history.latest([name])
        if not latest or name not in comparisons:
            return None
        site = Site(
            store=self._store,
            clock=SystemClock(),
            comparisons=comparisons,
            latest=latest,
        )
        chosen = {"metric": lead.metric, "segment": lead.segment}
        page = read_comparison_page(site, PageRequest(path={"name": name}, chosen=chosen))
        title = element(
            "text",
            f"{page.metric} of {page.segment[:40]}, {name}",
            x=PLOT_LEFT,
            y=24,
            class_="head",
        )
        chart = element("svg", series_chart(page), y=34, width=CHART_WIDTH, height=CHART_HEIGHT)
        with self._drawing:
            return _draw_png(title, chart)


@lru_cache(maxsize=16)
def _draw_png(*parts: Markup) -> bytes:
    """Draw these parts of an SVG as PNG, in the light colours of the style sheet.

    Raises RuntimeError if the child process fails.
    """
    # resvg supports no CSS variables and no media queries. So write the light colours into the
    # style.
    css = _MEDIA_QUERY.sub("", read_style().replace("\n", " "))
    for name, colour in re.findall(r"(--[\w-]+): ([^;]+);", css):
        css = css.replace(f"var({name})", colour)
    style = element("style", css + _LARGE)
    svg = element(
        "svg",
        style,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {CHART_WIDTH:g} {CHART_HEIGHT + 34:g}",
    )
    command = [sys.executable, "-P", "-c", _TO_PNG]
    done = subprocess.run(  # noqa: S603
        command,
        input=svg.encode(),
        capture_output=True,
        timeout=PICTURE_WAIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return done.stdout
