"""From what both arms answered to what can be compared, with every user accounted for. No I/O."""

from monitor.pairing.keeping import kept_lists
from monitor.pairing.knowing import unweighted_note
from monitor.pairing.pair import pair

__all__ = ["kept_lists", "pair", "unweighted_note"]
