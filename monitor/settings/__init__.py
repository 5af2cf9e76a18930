"""The configuration language: one YAML file becomes typed settings, or a list of all its errors.

Import the modules of this package. `excerpt` imports no source.
"""
