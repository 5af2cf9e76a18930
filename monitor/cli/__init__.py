"""The command line. It parses options, calls the service, prints results and sets the exit code."""

try:
    from monitor.cli.main import main as main
except KeyboardInterrupt:
    raise SystemExit(130) from None
