"""Fixtures for the tests of a project that sends webhooks."""
