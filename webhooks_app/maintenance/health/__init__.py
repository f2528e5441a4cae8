"""Which webhooks are failing, and since when."""
