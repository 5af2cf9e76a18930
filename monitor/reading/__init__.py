"""Defines what an id is, for all inputs: files, SQL, Redis, HTTP, plugins and frames.

`ids.py` has a table of the types that can be ids. It reads ids from Python's values, Arrow's
columns and DuckDB's expressions. `monitor.sources` reads the sources. `monitor.pairing.ids` defines
which ids are equal.
"""
