"""Ways over pairs, by numpy and by machine code, and the choice between them."""
