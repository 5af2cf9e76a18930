"""From what both arms answered to what can be compared, with every user accounted for. No I/O."""

from monitor.pairing.pairs import ListedItems, keep_lists, pair, sum_coverage
