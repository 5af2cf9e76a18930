"""Tables on a real terminal of eighty columns."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

COLUMNS = ("user", "segment", "users>", "mean>", "by chance>", "reason")
NUMBERS = ("1,234,567", "-0.123456", "-0.983972")
PRINT = """
import sys
from monitor.cli.output import print_table
print_table({columns!r}, {rows!r})
"""


def on_terminal(rows: list[tuple[str, ...]], width: int = 80) -> list[str]:
    """Lines as a terminal of that width gets them, without colours."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}} | {"TERM": "xterm"}
    command = [sys.executable, "-c", PRINT.format(columns=COLUMNS, rows=rows)]
    with subprocess.Popen(command, stdout=terminal, env=environ) as process:
        os.close(terminal)
        told = b""
        try:
            while part := os.read(controller, 65536):
                told += part
        except OSError:  # the other end is closed
            pass
        assert process.wait() == 0
    os.close(controller)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in told.decode().splitlines()]


def test_text_folds_within_the_terminal_and_numbers_stay_whole() -> None:
    reason = "the mean is below its threshold since the run of yesterday at six in the morning"
    lines = on_terminal([("u-1", "country=nonUK", *NUMBERS, reason)])

    assert max(map(len, lines)) <= 80
    for number in NUMBERS:
        assert sum(number in line for line in lines) == 1
    assert set(reason.split()) <= set(" ".join(lines).split())


def test_a_table_that_cannot_be_so_narrow_is_wider_than_the_terminal_and_loses_nothing() -> None:
    lines = on_terminal([("u-1", "country=nonUK", *NUMBERS, "too low")], width=40)

    whole = " ".join(lines)
    for word in (*NUMBERS, "u-1", "too low", "by chance"):
        assert word in whole
    assert "…" not in whole
