"""The scenarios, one module each, which are imported automatically."""
