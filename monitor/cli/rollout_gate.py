"""The command `gate`. It decides on a rollout. The result is an exit code and a certificate."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from monitor.cli.command_classes import Command
from monitor.cli.completion import DEFAULT_CONFIG, complete_slots
from monitor.cli.output import (
    INTERNAL_EXIT,
    OUTPUT_EXIT,
    USAGE_EXIT,
    VERDICT_EXITS,
    indented_json,
    print_error,
    print_json,
    print_line,
    print_table,
    report_internal,
    report_unwritten,
    require_writable,
    write_page,
    write_whole,
)
from monitor.cli.parameters import (
    AsJson,
    ComparisonArgument,
    Config,
    HtmlFile,
    MetricOption,
    Segments,
    parse_fixed,
)
from monitor.model.errors import ConfigError, InputError, MonitorError
from monitor.model.instants import format_second
from monitor.texts.wording import write_number

if TYPE_CHECKING:
    from markupsafe import Markup

    from monitor.model.gate import GateResult
    from monitor.service.gate.decision import Certificate

_CLICK_USAGE = 2  # click's exit code for wrong usage

_MOST_LOOKS = 24
_MOST_CHARTS = 6
_COLUMNS = (
    "segment",
    "users>",
    "missing>",
    "mean>",
    "at least>",
    "at most>",
    "safe>",
    "breach>",
    "verdict",
)


class GateCommand(Command):
    """A command whose exit code after an error is never that of a verdict."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as in click
        """Parse the options. If they are wrong, the command ends with exit code 64."""
        try:
            return super().make_context(*args, **kwargs)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - ends with an exit code
            _exit_by_error(error)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - likewise
        """Run the command. Each kind of error has its own exit code.

        Without this, the exit code after a bug would be 1, which means a breach.
        """
        try:
            return super().invoke(ctx)
        except (typer.Exit, KeyboardInterrupt):
            raise
        except MonitorError as error:
            print_error(str(error))
            if isinstance(error, (ConfigError, InputError)):
                raise typer.Exit(USAGE_EXIT) from None
            if error.exit_code in VERDICT_EXITS.values():
                raise typer.Exit(INTERNAL_EXIT) from None
            raise typer.Exit(error.exit_code) from None
        except OSError as error:
            if error.filename is None:
                raise  # standard output could not be written, and `main` reports this
            report_unwritten(error)
            raise typer.Exit(OUTPUT_EXIT) from None
        except Exception as error:  # noqa: BLE001 - likewise
            _exit_by_error(error)


def _exit_by_error(error: Exception) -> NoReturn:
    """End the command because of an error.

    Wrong usage ends it with exit code 64. An unexpected error is reported, and ends it with 70.
    """
    if not hasattr(error, "exit_code"):
        report_internal(error)
        raise typer.Exit(INTERNAL_EXIT) from None
    if error.exit_code == _CLICK_USAGE:
        error.exit_code = USAGE_EXIT
    raise error


_Margin = Annotated[
    float,
    typer.Option(
        help="Threshold for the mean excess, in units of the metric. A mean excess that reaches "
        "this threshold is too high."
    ),
]
_Alpha = Annotated[
    float, typer.Option(help="Accepted probability of each wrong verdict, between 0 and 1.")
]
_FirstSlot = Annotated[
    str | None,
    typer.Option(
        metavar="INSTANT",
        autocompletion=complete_slots,
        help="The first slot to judge. Choose this slot before you look at any results. You cannot "
        "use a relative time, such as 2d, because the verdict is valid only for a fixed start.",
    ),
]
_Reference = Annotated[
    float | None,
    typer.Option(
        help="The score that means no excess. Default: the noise floor or, if there is none, "
        "the score of identical lists."
    ),
]
_CertificateFile = Annotated[
    Path | None, typer.Option(help="File to which the certificate is written as JSON.")
]


def gate(  # noqa: PLR0913 - the command's options
    comparison: ComparisonArgument,
    *,
    margin: _Margin,
    alpha: _Alpha = 0.01,
    metric: MetricOption = None,
    segment: Segments = None,
    since: _FirstSlot = None,
    reference: _Reference = None,
    certificate: _CertificateFile = None,
    html: HtmlFile = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Decide from stored runs whether a rollout is safe.

    A rollout is safe if the candidate's mean excess is below the margin in each segment that you
    name. The verdict remains valid even if you use this command after every run.

    Exit codes: 0 safe; 1 breach; 2 inconclusive; 3 a source failed; 4 the database failed; 64
    wrong usage, configuration or input; 70 internal failure; 74 output could not be written; 130
    interrupted. docs/explanation/gate.md explains what the verdict means.
    """
    from monitor.service.clock import SystemClock
    from monitor.service.gate.decision import decide_gate, describe_certificate
    from monitor.service.gate.question import make_question
    from monitor.settings.loader import load_settings
    from monitor.settings.translation import comparisons_of
    from monitor.storage import opened_store

    settings = load_settings(config)
    question = make_question(
        comparisons_of(settings),
        comparison,
        margin=margin,
        alpha=alpha,
        metric=metric,
        segments=tuple(segment or ()),
        since=None if since is None else parse_fixed("--since", since),
        reference=reference,
    )
    for path in (certificate, html):
        if path is not None:
            require_writable(path)
    with opened_store(settings.database) as store:
        most_looks = 0 if html is None else _MOST_LOOKS
        result = decide_gate(
            store.history, settings, question, SystemClock(), most_looks=most_looks
        )
    if html is not None:
        write_page(html, f"gate of {comparison}", "certificate.html", [_as_page(result)])
    content = describe_certificate(result)
    if certificate is not None:
        write_whole(certificate, indented_json(content))
    if as_json:
        print_json(content)
    else:
        _print_certificate(result)
    raise typer.Exit(VERDICT_EXITS[result.verdict.value])


def _print_certificate(certificate: Certificate) -> None:
    for line in _question_lines(certificate):
        print_line(line)
    if certificate.segments:
        print_table(_COLUMNS, map(_segment_row, certificate.segments))
        print_line(_scale_line(certificate))
    print_line(f"{certificate.verdict.value.upper()}: {certificate.sentence}")


def _question_lines(certificate: Certificate) -> list[str]:
    """Say what was judged: the question, the runs, and the runs that were left out."""
    from monitor.texts.gate import write_left_out

    question = certificate.question
    scale = question.excess.scale
    lines = [
        f"{question.comparison.name}  margin {question.margin:g}  alpha {question.alpha:g}",
        f"judged: {question.excess}. It is between {scale.low:g} and {scale.high:g}",
        _runs_line(certificate),
    ]
    for reason, count in certificate.left_out.items():
        lines.append(f"left out: {write_left_out(reason, count)}")
    return lines


def _scale_line(certificate: Certificate) -> str:
    needed = -math.log10(certificate.question.alpha)
    return f"safe, breach: log10 of the evidence for each verdict. {needed:.2f} is enough"


def _as_page(certificate: Certificate) -> dict[str, object]:
    """Return the values of the template ``certificate.html``."""
    segments = certificate.segments

    def decides_less(place: int) -> bool:
        return segments[place].verdict is not certificate.verdict

    # The segments that decide the verdict come first.
    order = sorted(range(len(segments)), key=decides_less)
    charts = []
    for place in order[:_MOST_CHARTS]:
        charts.append((segments[place].segment, _draw_course(certificate, place)))
    return {
        "certificate": certificate,
        "lines": _question_lines(certificate),
        "enough": _scale_line(certificate),
        "segments": (_COLUMNS, [_segment_row(segments[place]) for place in order]),
        "charts": charts,
    }


def _draw_course(certificate: Certificate, place: int) -> Markup:
    """Draw the mean of one segment at each look, with its bounds and the margin.

    ``place`` is the place of the segment in the certificate's segments.
    """
    from monitor.charts.time_chart import Level, Point, draw_series

    points = []
    for slot, segments in certificate.course.items():
        result = segments[place]
        note = (
            f"{format_second(slot)}, {result.users:,} users: {write_number(result.low)} to "
            f"{write_number(result.high)}, {result.verdict.value}"
        )
        points.append(
            Point(at=slot, value=result.mean_best, note=note, low=result.low, high=result.high)
        )
    margin = Level(
        value=certificate.question.margin,
        name="margin",
        kind="limit",
        is_always_drawn=True,
    )
    label = f"mean excess of {certificate.segments[place].segment} by run"
    return draw_series(points, label=label, levels=[margin])


def _runs_line(certificate: Certificate) -> str:
    """Say which runs and how many users were judged."""
    from monitor.texts.gate import write_census

    runs = certificate.runs
    if not runs:
        return "runs: none"
    users = sum(run.users for run in runs)
    missing = sum(run.missing for run in runs)
    period = format_second(runs[0].slot)
    if len(runs) > 1:
        period += f" to {format_second(runs[-1].slot)}"
    looks = certificate.looks
    newest = f"run: {period}, the newest of {looks:,} runs, is judged alone"
    look = f"This is look {looks:,}, at alpha/{looks * (looks + 1):,}"
    if certificate.question.is_unpaired:
        return (
            f"{newest}: {users:,} random pairs of one user of each arm, {missing:,} of them "
            f"missing. {look}"
        )
    if certificate.question.is_census:
        census = write_census(certificate.question.fixed_users)
        return (
            f"{newest}: {census} ({users:,} users, {missing:,} missing). No run draws new users. "
            f"{look}"
        )
    return f"runs: {len(runs):,}, {period}; {users:,} rotating users, {missing:,} missing"


def _segment_row(result: GateResult) -> tuple[str, ...]:
    """Return the table row of one segment."""
    mean = write_number(result.mean_best)
    if write_number(result.mean_worst) != mean:
        mean += f" to {write_number(result.mean_worst)}"
    verdict = result.verdict.value
    if result.verdict == "inconclusive":
        verdict += f" ({result.reason.value})"
    return (
        result.segment,
        f"{result.users:,}",
        f"{result.missing:,}",
        mean,
        write_number(result.low),
        write_number(result.high),
        write_number(result.evidence_safe, 2),
        write_number(result.evidence_breach, 2),
        verdict,
    )
