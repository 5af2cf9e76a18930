"""The command `rankwatch`. Lists the commands in the order of the help, and handles errors."""

import atexit
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor import __version__
from monitor.cli import (
    backtest,
    compare,
    config_file,
    db,
    first_config,
    interleaved,
    metric_list,
    on_call,
    rollout_gate,
    rule_plans,
    serve,
    slots,
    stored_runs,
)
from monitor.cli.command_classes import Command, CommandGroup
from monitor.cli.completion import CONFIG_VARIABLE
from monitor.cli.output import (
    INTERRUPTED_EXIT,
    OUTPUT_EXIT,
    TERMINATED_EXIT,
    TRACEBACK_VARIABLE,
    print_error,
    report_internal,
    report_unwritten,
)
from monitor.model.errors import MonitorError

INTERNAL_FAILURE_EXIT = 1
EPILOG = (
    "Exit codes: 0 done, 1 internal failure, 2 wrong usage, configuration or input, 3 a source or "
    "run failed, 4 the database failed, 5 a delivery failed, 74 output could not be written, 130 "
    "interrupted, 143 terminated; gate: 0 safe, 1 breach, 2 inconclusive, see its help; "
    f"healthcheck: 1 not well. After an internal failure {TRACEBACK_VARIABLE}=1 shows the "
    "traceback, which can contain data."
)


class RootGroup(CommandGroup):
    """The group of all commands, in the order of `COMMANDS`. Each is built when it is first needed.

    Only the help needs all commands. Building all of them takes nearly as long as importing typer.
    Until a command is built, ``commands`` has None for its name. typer suggests names from it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as in typer
        super().__init__(*args, **kwargs)
        self._purposes: dict[str, str] = {}
        for purpose, commands in COMMANDS.items():
            self._purposes |= dict.fromkeys(commands, purpose)
        names: Any = dict.fromkeys(self._purposes)
        self.commands = names

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - as in typer
        """Return the command with this name. None if there is no such command."""
        purpose = self._purposes.get(cmd_name)
        if purpose is not None and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _build(cmd_name, purpose)
        return self.commands.get(cmd_name)


app = typer.Typer(
    name="rankwatch",
    cls=RootGroup,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # with boxes and colours the help would take twice as long
    context_settings={"help_option_names": ["-h", "--help"]},
)

# All commands by purpose, in the order in which the help shows them.
COMMANDS: Mapping[str, Mapping[str, Callable[..., None] | typer.Typer]] = {
    "Try": {
        "demo": serve.demo,
        "compare": compare.compare_lists,
        "interleaved": interleaved.interleaved,
        "metrics": metric_list.metrics,
    },
    "Configure": {
        "init": first_config.init,
        "check": config_file.check_config,
        "config": config_file.config_commands,
    },
    "Run": {
        "run-once": slots.run_once,
        "serve": serve.serve,
        "replay": slots.replay,
        "backfill": slots.backfill,
    },
    "Inspect": {
        "runs": stored_runs.list_runs,
        "show": stored_runs.show,
        "report": stored_runs.report,
    },
    "Alerts": {
        "alerts": on_call.alerts_app,
        "silence": on_call.silence_app,
        "accept": on_call.accept,
        "notify": on_call.notify_app,
    },
    "Decide": {
        "gate": rollout_gate.gate,
        "backtest": backtest.backtest,
        "suggest": rule_plans.suggest,
        "plan": rule_plans.plan,
    },
    "Maintain": {
        "healthcheck": serve.healthcheck,
        "series": metric_list.series,
        "db": db.db_commands,
    },
}


def _build(name: str, purpose: str) -> Any:  # noqa: ANN401 - likewise
    """Build the command or the group of commands with this name."""
    command = COMMANDS[purpose][name]
    part = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        part.add_typer(command, name=name, rich_help_panel=purpose)
    else:
        kind = rollout_gate.GateCommand if name == "gate" else Command
        part.command(name, cls=kind, rich_help_panel=purpose)(command)
    return typer.main.get_group(part).commands[name]


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(f"rankwatch {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="Configuration file. You can also give it after the command."
        ),
    ] = None,
) -> None:
    """Watch how far two recommenders drift apart.

    First steps: `rankwatch demo` shows what it does, and `rankwatch compare A.csv B.csv` compares
    two files. To watch two recommenders: `rankwatch init`, then `rankwatch check`, then `rankwatch
    run-once`.

    Write a TIME as 2024-01-08 or 2024-01-08T06:00Z (UTC), or as a time ago, such as 3h or 2d.
    """
    if config is not None:
        os.environ[CONFIG_VARIABLE] = str(config)


def main() -> None:
    """Run the command line.

    An error that a user can fix is printed as one line on standard error, without a traceback.
    """
    # Let Python collect garbage less often. While a command loads, almost no object becomes
    # garbage, but the default takes a tenth of the loading time.
    gc.set_threshold(500_000, 20, 20)
    # Use one thread of OpenBLAS. More threads use CPU time while they wait, and no command
    # multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run()
        if code == INTERRUPTED_EXIT:
            from monitor.service.interrupts import terminated

            if terminated.is_set():
                code = TERMINATED_EXIT
        sys.stdout.flush()
    except OSError as error:
        report_unwritten(error)
        code = OUTPUT_EXIT
    except KeyboardInterrupt:  # a second interrupt
        code = INTERRUPTED_EXIT
    # Ignore interrupts from here on, because they would only print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Skip Python's normal exit, because it unloads modules for a quarter of a second. It would also
    # write failed output again.
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public function
    os._exit(code if isinstance(code, int) else bool(code))


def _run() -> str | int | None:
    """Run the command, and return the exit code. Raises OSError if the output cannot be written."""
    try:
        app(prog_name="rankwatch")
    except MonitorError as error:
        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT
    except SystemExit as end:
        # If the output is a closed pipe, typer and rich exit with 1. But 1 can be a verdict, so
        # raise the error.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        return end.code
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - a traceback could show data
        report_internal(error)
        return INTERNAL_FAILURE_EXIT
    return 0
