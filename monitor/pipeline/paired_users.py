"""Users for which both arms are asked. A pair has the lists of both arms."""

from dataclasses import replace

from monitor.model.errors import MetricError
from monitor.model.immutable import immutable
from monitor.model.runs import MeasuredRun
from monitor.model.statistics import NoiseFloor
from monitor.pipeline.earlier_lists import measure_arm_scores
from monitor.pipeline.id_spellings import explain_missing_users
from monitor.pipeline.measured_users import MeasuredUsers, Measurement
from monitor.pipeline.pull import SlotUsers, SourceAnswers
from monitor.pipeline.run_explanation import explain_run, mention_subset


@immutable
class PairedUsers(SlotUsers):
    """The users of a paired comparison."""

    def divide(self, answers: SourceAnswers) -> SourceAnswers:
        """Return the answers unchanged, because each pair belongs to both arms."""
        return answers

    def measure_arms(self, users: MeasuredUsers) -> MeasuredRun:
        """Return the run with the arm metrics."""
        measuring = self.comparison.measuring
        scores = measure_arm_scores(measuring, users.subset, last=users.last, former=users.former)
        return replace(users.run, arm_scores=scores)

    def explain(self, users: MeasuredUsers) -> Measurement:
        """Explain the run, and say what could not be measured."""
        comparison = self.comparison
        accumulator = users.accumulator
        subset = users.subset
        coverage = accumulator.coverage
        notes = accumulator.notes
        left_out = [*users.answers.unread_inputs]
        is_temporal = comparison.measuring.noise_floor is NoiseFloor.TEMPORAL
        if is_temporal and self.memory.last_lists is None:
            left_out.append("noise_floor: no earlier run has stored its lists")
        left_out += accumulator.left_out
        mismatches = users.run.id_mismatches
        if not comparison.judging.shows_items:
            mismatches = tuple(mismatch.without_examples for mismatch in mismatches)
        mismatches += explain_missing_users(self.arms, coverage, self.slot, self.seconds_left())
        split, explanation = None, None
        try:
            split, explanation = explain_run(
                comparison,
                subset,
                accumulator.metrics,
                self.memory,
                former=users.former,
                last=users.last,
                mismatches=mismatches,
                notes=notes,
            )
        except MetricError as error:
            # A plugin's metric may fail for pairs of lists of different runs.
            left_out.append(f"not explained: {error}")
        asked = users.answers.asked.count
        run = replace(
            users.run,
            is_labelled=users.answers.relevance is not None,
            split=split,
            explanation=mention_subset(explanation, subset.coverage.all.asked, asked),
            id_mismatches=mismatches,
        )
        return Measurement(
            run=run,
            coverage=coverage,
            notes=notes,
            left_out=tuple(left_out),
            doubts=tuple(users.answers.doubts),
        )
