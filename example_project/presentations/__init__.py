"""Presentations: made from an outline, edited, downloaded."""
