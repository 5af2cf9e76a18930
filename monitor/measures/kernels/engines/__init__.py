"""Aligns lists, either by numpy or by machine code. Both give the same results."""
