"""Where each baseline item stands in the candidate's list, and what falls out on the way: by numpy, or by machine code."""
