"""Mutations of our own: small faults in the source that the fast tests of a folder must catch."""
