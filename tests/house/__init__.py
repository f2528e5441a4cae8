"""Tests of the checkout itself: what is built, and what the tests stand on."""
