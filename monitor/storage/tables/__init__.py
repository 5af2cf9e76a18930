"""Defines every table of the database. Migrations create them. People may query them with SQL."""
