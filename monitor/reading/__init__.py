"""What an id is, for everything that has rows or lists: files, SQL, Redis, HTTP, plugins, frames.

This package has the table of types, and ids from Python's values, Arrow's columns and DuckDB's
expressions. How a source is read is in `monitor.sources`. Which ids are equal is in
`monitor.pairing.ids`. Start with `ids.py`.
"""
