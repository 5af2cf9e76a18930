"""The configuration language: turns one YAML file into typed settings, or lists all its errors.

Import the modules of this package directly. `excerpt` imports no source.
"""
