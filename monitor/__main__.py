"""``python -m monitor`` is the command rankwatch."""

from monitor.cli import main

main()
