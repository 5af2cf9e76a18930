"""The words of rankwatch as frozen dataclasses. No logic, no I/O."""
