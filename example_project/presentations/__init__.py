"""Presentations: generated from an outline, edited, downloaded."""
