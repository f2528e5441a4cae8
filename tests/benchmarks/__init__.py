"""Tests of ``benchmarks``: how they run, count and report. One of them limits the counts of a delivery."""
