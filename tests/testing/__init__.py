"""What we give to the tests of a host."""
