"""Differences between databases, and SQL beyond the ORM."""
