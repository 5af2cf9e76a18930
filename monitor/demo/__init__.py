"""The command `rankwatch demo`. Two recommenders drift apart, and the daemon notices this."""
