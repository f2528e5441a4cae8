"""The health of webhooks: failing periods, warnings and automatic disabling."""
