"""The content of a message, the same for every channel, and the text, labels and keys that it is made of."""
