"""Database differences, and SQL beyond the ORM."""
