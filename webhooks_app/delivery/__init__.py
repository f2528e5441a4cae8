"""Sending what is due: claim, send, record."""
