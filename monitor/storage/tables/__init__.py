"""Every table of the database. Migrations create the tables. People may query them with SQL."""
