"""Users for which both arms are asked. A pair has the lists of both arms."""

from collections.abc import Iterator
from dataclasses import replace

from monitor.model.errors import MetricError
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL
from monitor.model.runs import MeasuredRun
from monitor.model.statistics import DerivedMetric, NoiseFloor, parse_derived
from monitor.pipeline.earlier_lists import measure_arm_scores
from monitor.pipeline.id_spellings import explain_missing_users
from monitor.pipeline.measured_users import MeasuredUsers, Measurement
from monitor.pipeline.pull import SlotContext, SourceAnswers
from monitor.pipeline.run_explanation import explain_run, mention_subset

_LEAST_FLOOR_SHARE = 0.5
"""If a smaller share of the compared users has a second list of the baseline, the run says so."""


@immutable
class PairedSteps(SlotContext):
    """The steps of a run of a paired comparison."""

    def divide_by_arm(self, answers: SourceAnswers) -> SourceAnswers:
        """Return the answers unchanged, because each pair belongs to both arms."""
        return answers

    def measure_arms(self, measured: MeasuredUsers) -> MeasuredRun:
        """Return the run with the arm metrics."""
        measuring = self.comparison.measuring
        scores = measure_arm_scores(
            measuring, measured.subset, last=measured.last, former=measured.former
        )
        return replace(measured.run, arm_scores=scores)

    def explain(self, measured: MeasuredUsers) -> Measurement:
        """Explain the run, and say what could not be measured."""
        comparison = self.comparison
        accumulator = measured.accumulator
        subset = measured.subset
        coverage = accumulator.coverage
        notes = accumulator.notes
        left_out = [*measured.answers.unread_inputs]
        left_out += self._missing_floor(measured.run)
        left_out += accumulator.left_out
        mismatches = measured.run.id_mismatches
        if not comparison.judging.shows_items:
            mismatches = tuple(mismatch.without_examples for mismatch in mismatches)
        mismatches += explain_missing_users(self.sources, coverage, self.slot, self.seconds_left())
        split = None
        explanation = None
        try:
            split, explanation = explain_run(
                comparison,
                subset,
                accumulator.metrics,
                self.memory,
                former=measured.former,
                last=measured.last,
                mismatches=mismatches,
                notes=notes,
            )
        except MetricError as error:
            # A plugin's metric may fail for pairs of lists of different runs.
            left_out.append(f"not explained: {error}")
        asked = measured.answers.asked.count
        run = replace(
            measured.run,
            is_labelled=measured.answers.relevance is not None,
            split=split,
            explanation=mention_subset(explanation, subset.coverage.all.asked, asked),
            id_mismatches=mismatches,
        )
        return Measurement(
            run=run,
            coverage=coverage,
            notes=notes,
            left_out=tuple(left_out),
            doubts=tuple(measured.answers.doubts),
        )

    def _missing_floor(self, run: MeasuredRun) -> Iterator[str]:
        """Yield a sentence if few of the compared users have a second list of the baseline."""
        noise_floor = self.comparison.measuring.noise_floor
        if noise_floor is NoiseFloor.TEMPORAL:
            # Rotating users have no lists in the last run, so few second lists are normal.
            if self.memory.last_lists is None:
                yield "noise_floor: no earlier run has stored its lists"
            return
        for summary in run.summaries:
            derived, _ = parse_derived(summary.metric)
            users = summary.n + summary.n_undefined
            is_floor = summary.segment == ALL and derived is DerivedMetric.FLOOR
            if is_floor and summary.n < _LEAST_FLOOR_SHARE * users:
                advice = ""
                if noise_floor is NoiseFloor.RETRAIN:
                    advice = ": check that users' ids are spelled alike"
                yield (
                    f"noise_floor: only {summary.n:,} of {users:,} compared users have a second "
                    f"list of the baseline{advice}"
                )
                return
