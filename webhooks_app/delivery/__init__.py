"""The delivery engine: claiming due deliveries, sending them and recording the results."""
