"""Every table of the database, also for people who write SQL; migrations create them."""
