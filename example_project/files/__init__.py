"""Files: uploaded, inspected, deleted."""
