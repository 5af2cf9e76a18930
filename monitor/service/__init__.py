"""The composition root. It wires all parts, and runs the daemon, the commands and the analyses."""
