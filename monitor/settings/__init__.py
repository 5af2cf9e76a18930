"""The configuration language: turns one YAML file into typed settings, or lists all its errors.

Import the modules of this package directly, because some programs need only the fast ones.
"""
