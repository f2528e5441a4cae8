"""Tests of the checkout itself: builds, documentation and the servers for tests."""
