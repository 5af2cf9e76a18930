"""One run from the users asked to the result stored, and one delivery from claim to record.

Written over ports only.
"""
