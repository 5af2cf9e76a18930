"""Defines what an id, a list and a number is, for all inputs. This is the only definition.

Files, SQL, Redis, HTTP, plugins and frames use it. `ids.py` reads ids: start there. `lists.py`
reads lists with their scores, `numbers.py` reads numbers, and `tally.py` counts what cannot be read.
`monitor.sources` gets the data. `monitor.measures.pairing.ids` has the codes of ids.
"""
