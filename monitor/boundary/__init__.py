"""What adapters share.

Here are deadlines, files that are read bounded and replaced whole, addresses that are refused,
redaction, errors of other programs in our words, and the options and plugins that adapters have in
common. Nothing here knows a vendor. Start reading in `deadline.py` and `foreign_errors.py`.
"""
