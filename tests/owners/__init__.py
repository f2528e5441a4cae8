"""Projects with owners of their own, each with its settings, and the policy about owners."""
