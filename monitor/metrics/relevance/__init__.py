"""Measures of how good the lists are for what users found relevant."""
