"""An app for development settings, which is not part of the package: demo data."""
