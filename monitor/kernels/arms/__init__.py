"""One arm by itself: what it exposes, and how much that changed."""
