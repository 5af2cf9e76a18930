"""The shipped rules and routes at another pace: every span of time in them divided, so that a story of hours takes a minute."""

import re

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = rf"(?P<number>\d+)(?P<unit>[{''.join(_UNITS_S)}])"
_PLACES = (
    rf"(?P<before>(?:\bfor|_wait|_interval): ){_SPAN}(?P<after>\s)",
    rf"(?P<before>\[){_SPAN}(?P<after>[\]:])",
    rf"(?P<before>\[\w+:){_SPAN}(?P<after>\])",
    rf"(?P<before>\boffset ){_SPAN}(?P<after>\b)",
)
_SECONDS = re.compile(r"\b(?P<number>\d+) \* (?P<unit>60|3600|86400)\b")


def quicken(text: str, by: int) -> str:
    """Divide ``for: 5m``, ``group_wait: 30s``, ``[7d:6h]``, ``offset 7d`` and seconds written ``10 * 60``; nothing else.

    Spans become whole milliseconds. Numbers in descriptions, names of recorded series and bare numbers stay.
    """
    for place in _PLACES:
        text = re.sub(place, lambda found: _shortened(found, by), text)
    return _SECONDS.sub(lambda found: f"{int(found['number']) * int(found['unit']) / by:g}", text)


def _shortened(found: re.Match[str], by: int) -> str:
    milliseconds = int(found["number"]) * _UNITS_S[found["unit"]] * 1000 // by
    return f"{found['before']}{milliseconds}ms{found['after']}"
