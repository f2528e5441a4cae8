"""Replays: sending missed or past events to a webhook again, alongside live traffic."""
