import io
from typing import Any

from rich.console import Console

from monitor.demo.screen import NewLines, open_view
from monitor.demo.simulation import LogNote, NoteKind
from monitor.model import RunStatus


def clock(make: Any, seconds: float) -> str:
    return f"{make.at(seconds).astimezone():%H:%M:%S}"


def test_the_first_lines_say_where_everything_is(make: Any) -> None:
    assert NewLines().new(make.status()) == [
        "Configuration rankwatch-demo/rankwatch.yaml, database rankwatch-demo/rankwatch.db, log rankwatch-demo/rankwatch.log",
        "Metrics http://127.0.0.1:29108/metrics",
    ]


def test_each_run_and_each_note_is_printed_once_in_order_of_time(make: Any) -> None:
    lines = NewLines()
    lines.new(make.status())
    note = LogNote(at=make.at(1), kind=NoteKind.FIRING, text="SimilarityLow country=DE: why")
    status = make.status(seen=make.seen_runs(2), notes=(note,))
    assert lines.new(status) == [
        f"{clock(make, 0)} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
        f"{clock(make, 1)} FIRING   SimilarityLow country=DE: why",
        f"{clock(make, 2)} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
    ]
    assert lines.new(status) == []


def test_a_run_is_printed_only_when_it_has_ended_and_its_means_are_known(make: Any) -> None:
    lines = NewLines()
    lines.new(make.status())
    running = make.run(0, status=RunStatus.RUNNING, finished_at=None)
    assert lines.new(make.status(seen=make.seen(runs=(running,)))) == []
    assert lines.new(make.status(seen=make.seen(runs=(make.run(0),)))) == []
    assert len(lines.new(make.status(seen=make.seen_runs(1)))) == 1


def test_a_failed_run_is_printed_with_its_reason(make: Any) -> None:
    lines = NewLines()
    lines.new(make.status())
    run = make.run(0, status=RunStatus.FAILED, asked=None, paired=None, reason="the baseline is down")
    (line,) = lines.new(make.status(seen=make.seen(runs=(run,))))
    assert line.endswith("RUN      failed paired 0/0 the baseline is down")


def test_what_is_no_terminal_gets_plain_unwrapped_lines_without_markup(make: Any) -> None:
    out = io.StringIO()
    note = LogNote(at=make.at(0), kind=NoteKind.RESOLVED, text="[bold]as it is[/bold] " + "long " * 60)
    with open_view(Console(file=out, width=80)) as view:
        view.show(make.status(notes=(note,)))
    text = out.getvalue()
    assert "\x1b" not in text
    assert text.splitlines()[2].startswith(f"{clock(make, 0)} RESOLVED [bold]as it is[/bold] long")
    assert len(text.splitlines()) == 3


def test_a_terminal_gets_a_frame_that_stays_when_the_view_closes(make: Any) -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, height=30, force_terminal=True, _environ={"TERM": "xterm-256color"})
    with open_view(console) as view:
        view.show(make.status())
    text = out.getvalue()
    assert "Ctrl-C stops everything" in text
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is shown again


def test_a_dumb_terminal_gets_lines(make: Any) -> None:
    out = io.StringIO()
    with open_view(Console(file=out, width=80, force_terminal=True, _environ={"TERM": "dumb"})) as view:
        view.show(make.status())
    assert "Metrics http://127.0.0.1:29108/metrics\n" in out.getvalue()
