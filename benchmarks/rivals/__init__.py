"""What the app is compared with: the usual way, and the packages that others use."""
