"""Sending one HTTP request safely, and many at once."""
