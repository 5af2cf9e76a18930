"""The command line: parse, call the service, print, exit code. Nothing is decided here."""

from monitor.cli.main import main
