"""The command line: parse, call the service, print, exit code. Nothing is decided here.

Exit codes: 0 done; 1 internal failure; 2 wrong usage, configuration or input; 3 a source or run failed; 4 database;
5 delivery; 130 interrupted. Only `gate` differs: 0 safe, 1 breach, 2 inconclusive, and no error of its own ends with these.
"""

from monitor.cli.main import main
