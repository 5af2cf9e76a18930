"""Every table of the database, made to be read by people with SQL too.

What creates them is in migrations.
"""
