"""The app ``webhooks_app.demo``: demo data and capacity planning."""
