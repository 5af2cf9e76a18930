"""Writes sentences for people from values. No code decides by a sentence."""
