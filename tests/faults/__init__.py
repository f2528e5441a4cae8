"""Fault tests: the app with real servers that are killed, emptied, frozen and filled."""
