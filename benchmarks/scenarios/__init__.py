"""What is measured: one module for each scenario, found by itself."""
