"""Tests of the customers' pages."""
