"""The content of a message, the same for every receiver, and its text, labels and keys."""
