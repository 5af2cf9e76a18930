"""Statistic: what a rule may ask of a summary, by a name that parses and prints."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Self

from monitor.errors import ConfigError

_QUANTILE = re.compile(r"p(\d{2})")
_SHARE = re.compile(r"share_below\(\s*([^()\s]+)\s*\)")


@dataclass(frozen=True, slots=True)
class Statistic:
    """``mean``, a percentile ``p01`` to ``p99``, or ``share_below(x)``: the share of users scoring strictly under ``x``.

    Exactly one of ``quantile`` (0.01 to 0.99) and ``floor`` is set; both are None for the mean.
    """

    quantile: float | None = None
    floor: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a statistic's name; ConfigError when it is none."""
        name = text.strip()
        if name == "mean":
            return cls()
        if (match := _QUANTILE.fullmatch(name)) and match[1] != "00":
            return cls(quantile=int(match[1]) / 100)
        if match := _SHARE.fullmatch(name):
            try:
                floor = float(match[1])
            except ValueError:
                floor = float("nan")
            if math.isfinite(floor):
                return cls(floor=floor)
        msg = f"unknown statistic {text!r}: use mean, p01 to p99, or share_below(x) with a number x"
        raise ConfigError(msg)

    def __str__(self) -> str:
        if self.quantile is not None:
            return f"p{round(self.quantile * 100):02d}"
        return "mean" if self.floor is None else f"share_below({self.floor:.15g})"
