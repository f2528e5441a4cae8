"""The app ``demo_data``."""
