"""Replays: sending missed or past events to a webhook again, besides live traffic."""
