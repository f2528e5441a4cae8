"""Sending again what a webhook missed, or got: which events these are, and carrying them out beside live traffic."""
