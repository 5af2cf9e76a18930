"""Sentences for people, written from values. No code decides by them."""
