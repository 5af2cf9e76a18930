"""The code that all adapters share.

This package defines deadlines. It reads files of limited size and replaces files as a whole. It
refuses link-local addresses and removes secrets from text. It describes errors of other programs in
our own words. It has the base of all options and of all plugins. No module depends on a vendor.
Start reading in `deadline.py` and `foreign_errors.py`.
"""
