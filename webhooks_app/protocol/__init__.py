"""The wire protocol of the specification: envelope, handshake, identifiers and times."""
