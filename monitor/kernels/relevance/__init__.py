"""What lists are worth to users whose taste is known, and how that knowledge joins the lists."""
