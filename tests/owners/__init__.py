"""Policies for owners, and projects with other owners and settings."""
