"""Which users a run asks for: reproducible, seeded, with segments. No I/O."""

from monitor.sampling.panel import draw
from monitor.sampling.segments import split

__all__ = ["draw", "split"]
