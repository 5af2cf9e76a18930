"""Which users a run asks for: reproducible, seeded, with segments. No I/O."""

from monitor.sampling.panel import draw, fixed_among

__all__ = ["draw", "fixed_among"]
