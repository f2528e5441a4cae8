"""A project whose owners are organizations."""
