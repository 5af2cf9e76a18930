"""From what both arms answered to what can be compared, with every user accounted for. No I/O."""

from monitor.pairing.pair import pair

__all__ = ["pair"]
