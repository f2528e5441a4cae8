"""The REST API, as view sets that a host mounts or subclasses."""
