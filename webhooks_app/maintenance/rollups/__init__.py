"""Counters over time: aggregated from the tallies of recorded batches, read by charts and metrics."""
