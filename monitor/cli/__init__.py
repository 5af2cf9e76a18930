"""The command line: parse, call the service, print, exit code. Nothing is decided here."""

try:
    from monitor.cli.main import main
except KeyboardInterrupt:
    raise SystemExit(130) from None
