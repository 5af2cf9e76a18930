"""Which users a run asks for: reproducible, seeded, with segments. No I/O."""

from monitor.sampling.panel import draw

__all__ = ["draw"]
