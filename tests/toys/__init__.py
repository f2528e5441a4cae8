"""Toy extensions, each in one file, added by one setting."""
