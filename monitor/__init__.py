"""rankwatch: watches how far two recommenders drift apart."""

__version__ = "0.1.0"
