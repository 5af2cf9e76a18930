"""Connects all parts, and runs the daemon, the commands and the analyses."""
