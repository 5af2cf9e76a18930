"""Passes over pairs and texts, by numpy and by machine code, and the choice between them."""
