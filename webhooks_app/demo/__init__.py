"""Demo data and capacity planning, as a separate app for development settings."""
