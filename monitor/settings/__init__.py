"""The YAML language: one file becomes typed settings, or a list of everything that is wrong with it.

Import from its modules: what only reads the database takes `excerpt`, which loads no source and no receiver.
"""
