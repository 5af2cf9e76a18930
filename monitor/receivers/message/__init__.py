"""Makes the content, text, labels and keys of messages. All receivers use the same content."""
