"""Demo data and capacity planning: an app of its own, for the settings of development."""
