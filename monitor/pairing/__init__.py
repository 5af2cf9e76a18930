"""From what both arms answered to what can be compared, with every user accounted for. No I/O."""

from monitor.pairing.batches import unweighted_note
from monitor.pairing.pairs import keep_lists, pair
