"""The event catalogue as documents for integrators, and the comparison of two of its versions."""
