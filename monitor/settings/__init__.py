"""The YAML language: one file becomes typed settings, or all its errors.

Import its modules: `excerpt` loads no source.
"""
