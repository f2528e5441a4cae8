"""Counters over time: folded from the tallies of recorded batches, read for charts and metrics."""
