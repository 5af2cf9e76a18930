"""Ways over pairs and ids, by numpy and by machine code, and the choice between them."""
