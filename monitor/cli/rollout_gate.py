"""The command `gate`: one decision on a rollout, as an exit code and a certificate."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from monitor.cli import output
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, parse_instant
from monitor.errors import ConfigError, InputError, MonitorError

if TYPE_CHECKING:
    from markupsafe import Markup

    from monitor.sequential.gate import GateResult
    from monitor.service.gate import Certificate

_CLICK_USAGE = 2  # what usage errors end with elsewhere

_MOST_LOOKS, _MOST_CHARTS = 24, 6
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


class GateCommand(TyperCommand):
    """A command whose errors never end with an exit code that is a verdict."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature of the command line's library
        """Wrong options end with 64."""
        try:
            return super().make_context(*args, **kwargs)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - ends with an exit code
            _end(error)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - likewise
        """What goes wrong below ends with an exit code of its own, a fault of the program too: Python's own is 1, a breach."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, KeyboardInterrupt):
            raise
        except MonitorError as error:
            output.print_error(str(error))
            if isinstance(error, (ConfigError, InputError)):
                raise typer.Exit(output.USAGE_EXIT) from None
            is_taken = error.exit_code in output.VERDICT_EXITS.values()
            raise typer.Exit(output.INTERNAL_EXIT if is_taken else error.exit_code) from None
        except OSError as error:
            if error.filename is None:
                raise  # the output itself, which `main` reports
            output.report_unwritten(error)
            raise typer.Exit(output.OUTPUT_EXIT) from None
        except Exception as error:  # noqa: BLE001 - likewise
            _end(error)


def _end(error: Exception) -> NoReturn:
    """Raise the error of the command line's library with 64 for wrong usage.

    Report any other error and end with 70.
    """
    if not hasattr(error, "exit_code"):
        output.report_internal(error)
        raise typer.Exit(output.INTERNAL_EXIT) from None
    if error.exit_code == _CLICK_USAGE:
        error.exit_code = output.USAGE_EXIT
    raise error


def gate(  # noqa: PLR0913 - the command's options
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    *,
    margin: Annotated[
        float, typer.Option(help="Mean excess that would be too much, in the metric's own units.")
    ],
    alpha: Annotated[
        float, typer.Option(help="How often each wrong verdict is acceptable, between 0 and 1.")
    ] = 0.01,
    metric: Annotated[
        str | None, typer.Option(help="Measure to judge; default: the comparison's first.")
    ] = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(help="Segment to judge, or each; may be repeated. All of them must be safe."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="First slot that counts, ISO 8601. Choose it before you look."),
    ] = None,
    reference: Annotated[
        float | None,
        typer.Option(
            help=(
                "Score that counts as no excess, in place of the noise floor or of identical lists."
            )
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Write the certificate, JSON, to this file.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the certificate to this HTML file too, with charts.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Decide on a rollout from stored runs: safe, or a breach?

    Is the candidate's mean excess below the margin? The answer is valid however often you look.

    Exit 0 safe, 1 breach, 2 inconclusive; 64 wrong usage, configuration or input, 70 internal
    failure, 74 output, 3 a source, 4 database, 130 interrupted. What the promise covers stands in
    monitor/sequential/README.md."""
    from monitor.service.clock import SystemClock
    from monitor.service.gate import decide, describe_certificate, make_question
    from monitor.settings.loader import load_settings
    from monitor.settings.translation import to_comparison
    from monitor.storage import opened_store

    settings = load_settings(config)
    question = make_question(
        {options.name: to_comparison(options) for options in settings.comparisons},
        comparison,
        margin=margin,
        alpha=alpha,
        metric=metric,
        segments=tuple(segment or ()),
        since=None if since is None else parse_instant(since),
        reference=reference,
    )
    for path in filter(None, (certificate, html)):
        output.require_writable(path)
    with opened_store(settings.database) as store:
        found = decide(
            store.history,
            settings,
            question,
            SystemClock(),
            most_looks=0 if html is None else _MOST_LOOKS,
        )
    if html is not None:
        output.write_page(html, f"gate of {comparison}", "certificate.html", [_as_page(found)])
    content = describe_certificate(found)
    if certificate is not None:
        output.write_whole(certificate, output.indented_json(content))
    if as_json:
        output.print_json(content)
    else:
        _print(found)
    raise typer.Exit(output.VERDICT_EXITS[found.verdict.value])


def _print(found: Certificate) -> None:
    for line in _asked(found):
        output.print_line(line)
    if found.segments:
        output.print_table(_COLUMNS, map(_row, found.segments))
        output.print_line(_enough(found))
    output.print_line(f"{found.verdict.value.upper()}: {found.words}")


def _asked(found: Certificate) -> list[str]:
    from monitor.service.gate import LEFT_OUT_TEXTS

    question = found.question
    asked = f"{question.comparison.name}  margin {question.margin:g}  alpha {question.alpha:g}"
    left_out = (
        f"{count:,} {'run' if count == 1 else 'runs'} {LEFT_OUT_TEXTS[why]}"
        for why, count in found.left_out.items()
    )
    return [
        asked,
        f"judged: {question.excess}",
        _runs_line(found),
        *(f"left out: {each}" for each in left_out),
    ]


def _enough(found: Certificate) -> str:
    return (
        f"safe, breach: log10 of the evidence for each; {-math.log10(found.question.alpha):.2f} is "
        "enough by itself"
    )


def _as_page(found: Certificate) -> dict[str, object]:
    order = sorted(
        range(len(found.segments)),
        key=lambda place: found.segments[place].verdict is not found.verdict,
    )
    return {
        "found": found,
        "lines": _asked(found),
        "enough": _enough(found),
        "segments": (_COLUMNS, [_row(found.segments[place]) for place in order]),
        "charts": [
            (found.segments[place].segment, _draw_course(found, place))
            for place in order[:_MOST_CHARTS]
        ],
    }


def _draw_course(found: Certificate, place: int) -> Markup:
    """The confidence sequence of one segment: mean and bounds, look after look, against the margin."""
    from monitor.charts.time_chart import Level, Point, draw_series

    number, instant = output.number, output.instant
    looks = [(slot, segments[place]) for slot, segments in found.course.items()]
    points = [
        Point(
            at=slot,
            value=each.mean_best,
            note=(
                f"{instant(slot)}, {each.users:,} users: {number(each.low)} to "
                f"{number(each.high)}, {each.verdict.value}"
            ),
            low=each.low,
            high=each.high,
        )
        for slot, each in looks
    ]
    margin = Level(value=found.question.margin, name="margin", kind="limit", is_always_drawn=True)
    return draw_series(
        points, label=f"mean excess of {looks[-1][1].segment} by run", levels=[margin]
    )


def _runs_line(found: Certificate) -> str:
    if not found.runs:
        return "runs: none"
    users, missing = (
        sum(getattr(run, name) for run in found.runs) for name in ("users", "missing")
    )
    period = " to ".join(
        dict.fromkeys(output.instant(run.slot) for run in (found.runs[0], found.runs[-1]))
    )
    if found.question.is_census:
        return (
            f"run: {period}, newest of {found.looks:,}, by itself: {found.question.census} "
            f"({users:,} users, {missing:,} missing), so the next one draws nobody anew; look "
            f"{found.looks:,}, at alpha/{found.looks * (found.looks + 1):,}"
        )
    return f"runs: {len(found.runs):,}, {period}; {users:,} rotating users, {missing:,} missing"


def _row(each: GateResult) -> tuple[str, ...]:
    number = output.number
    means = dict.fromkeys(number(mean) for mean in (each.mean_best, each.mean_worst))
    verdict = (
        each.verdict.value
        if each.verdict != "inconclusive"
        else f"{each.verdict.value} ({each.reason.value})"
    )
    figures = (
        number(each.low),
        number(each.high),
        number(each.evidence_safe, 2),
        number(each.evidence_breach, 2),
    )
    return (
        each.segment,
        f"{each.users:,}",
        f"{each.missing:,}",
        " to ".join(means),
        *figures,
        verdict,
    )
