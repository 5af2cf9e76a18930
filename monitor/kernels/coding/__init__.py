"""Ids as codes by order of first appearance, by machine code where there is any."""
