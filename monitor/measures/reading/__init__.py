"""Defines what an id, a list and a number is.

All inputs use these definitions: files, SQL, Redis, HTTP, plugins and frames. Start with `ids.py`,
which reads ids. `lists.py` reads lists with their scores, `numbers.py` reads numbers, and
`unreadable_values.py` counts values that cannot be read. `monitor.sources` gets the data.
`monitor.measures.pairing.ids` replaces ids by integer codes.
"""
