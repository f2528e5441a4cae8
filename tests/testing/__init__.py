"""The test kit for hosts."""
