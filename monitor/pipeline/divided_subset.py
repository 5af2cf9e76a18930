"""Users of both arms of an unpaired comparison, with their pre-test and current lists."""

from monitor.model.arrays import Rows
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm, Coverage
from monitor.pipeline.accumulator import Subset
from monitor.statistics.attribution.changes import OwnLists


def name_divided_segment(arm: Arm, segment: str) -> str:
    """Return the name of a segment's users of one arm, inside a run."""
    return f"{arm} {segment}"


@immutable
class DividedSubset:
    """Users of both arms, with their pre-test and current lists."""

    subset: Subset  # its segments are divided by arm
    segments: tuple[str, ...]  # the undivided segments
    coverage: Coverage  # of the undivided segments

    def rows(self, arm: Arm, segment: str = ALL) -> Rows:
        """Return the rows of the segment's users of this arm."""
        return self.subset.segments[name_divided_segment(arm, segment)]

    def lists(self, rows: slice | Rows) -> OwnLists:
        """Return the pre-test and current lists of the users in these rows."""
        # A pair of ``subset`` has two lists of one user. The pre-test list is in the place of the
        # baseline's list, and the current list in the place of the candidate's list.
        return OwnLists.of_pairs(self.subset.pairing.batch.take(rows))

    def name_item(self, code: int) -> str:
        """Return the item's id."""
        vocabulary = self.subset.pairing.vocabulary
        return str(code if vocabulary is None else vocabulary[code])
