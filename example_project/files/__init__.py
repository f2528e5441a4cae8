"""Files: uploaded, looked into, deleted."""
