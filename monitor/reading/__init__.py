"""What an id is, for everything that has rows or lists: files, SQL, Redis, HTTP, plugins, frames and Python's lists.

Here: the table of types, and ids from Python's values, Arrow's columns and DuckDB's expressions. Not here: how a source is
read, and which ids are equal (`monitor.pairing.ids`). Start with `ids.py`.
"""
