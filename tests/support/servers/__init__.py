"""Real servers for the tests: private instances on free loopback ports, in temporary directories."""
