"""System checks with stable ids."""
