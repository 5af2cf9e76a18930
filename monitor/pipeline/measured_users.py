"""The users of a run after all of them were measured, and the result of the measurement."""

from monitor.model.immutable import immutable
from monitor.model.rankings import Coverage, Notes
from monitor.model.run_reasons import RunReasons
from monitor.model.runs import MeasuredRun
from monitor.pipeline.accumulator import RunAccumulator, Subset
from monitor.pipeline.earlier_lists import RecodedLists
from monitor.pipeline.pull import SourceAnswers


@immutable
class MeasuredUsers:
    """The users of one slot, after all of them were measured.

    - ``last`` are the lists of the last run.
    - ``former`` are the lists of the last run before the current alerts began. Without alerts, this
      is the last run.
    """

    run: MeasuredRun
    subset: Subset
    accumulator: RunAccumulator
    answers: SourceAnswers
    last: RecodedLists | None
    former: RecodedLists | None


@immutable
class Measurement:
    """What a run measured, and sentences about what it could not measure.

    - ``notes`` say for each arm and reason what happened first, with example users.
    - ``left_out`` are sentences about what should have been measured but was not.
    - ``doubts`` are reasons why the noise floor is not judged.
    """

    run: MeasuredRun
    coverage: Coverage
    notes: Notes
    left_out: tuple[str, ...]
    doubts: RunReasons = ()
